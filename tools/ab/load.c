// Connections over loopback, opened and closed as fast as asked. The server sends BYTES and closes first.
// usage: load serve PORT THREADS BYTES [NAME…]
//        load fetch PORT THREADS BYTES SECONDS RATE PROGRESS [NETWORKS]
// RATE: connections a second over all threads; 0: as many as there can be.
// PROGRESS: a file whose first eight bytes count the connections that brought all their bytes. Exit 1 at the first that did not.
// NAME: the congestion control that connections from 127.1.0.0/16, 127.2.0.0/16 and so on must have; the server exits with 1 at the
// first that has another. NETWORKS: how many of these the clients come from, in turn.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int port, threads, bytes, networks;
static char **names;
static double seconds, rate;
static _Atomic uint64_t *done;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static struct sockaddr_in at(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

// Ends the program if a connection has another congestion control than its client's network must have.
static void check(int one, struct sockaddr_in *from)
{
	int network = ntohl(from->sin_addr.s_addr) >> 16 & 0xff;
	char name[16] = "";
	socklen_t length = sizeof name;

	if (network < 1 || network > networks)
		return;
	if (getsockopt(one, IPPROTO_TCP, TCP_CONGESTION, name, &length))
		die("getsockopt");
	if (strncmp(name, names[network - 1], sizeof name)) {
		fprintf(stderr, "127.%d.0.0/16: %.16s instead of %s\n", network, name, names[network - 1]);
		exit(1);
	}
}

static void *serve(void *listener)
{
	char *block = calloc(1, bytes), rest[64];

	for (;;) {
		struct sockaddr_in from;
		socklen_t length = sizeof from;
		int one = accept((int)(intptr_t)listener, (void *)&from, &length);

		if (one < 0)
			die("accept");
		check(one, &from);
		for (int sent = 0, n; sent < bytes; sent += n)
			if ((n = send(one, block + sent, bytes - sent, MSG_NOSIGNAL)) <= 0)
				break;
		shutdown(one, SHUT_WR);
		while (read(one, rest, sizeof rest) > 0)
			;
		close(one);
	}
	return listener;
}

static void *fetch(void *unused)
{
	char room[1 << 16];
	struct sockaddr_in to = at();
	double begun = now(), each = rate > 0 ? threads / rate : 0;

	for (uint64_t nth = 0; now() - begun < seconds; nth++) {
		int one = socket(AF_INET, SOCK_STREAM, 0), got = 0;
		double early = begun + nth * each - now();
		ssize_t n;

		if (early > 0)
			usleep(early * 1e6);
		if (one >= 0 && networks) {
			struct sockaddr_in own = { .sin_family = AF_INET };
			int late = 1;

			own.sin_addr.s_addr = htonl(127 << 24 | (1 + nth % networks) << 16 | 1);
			if (setsockopt(one, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late) || bind(one, (void *)&own, sizeof own))
				die("bind");
		}
		if (one < 0 || connect(one, (void *)&to, sizeof to))
			die("connect");
		while ((n = read(one, room, sizeof room)) > 0)
			got += n;
		if (n < 0 || got != bytes) {
			fprintf(stderr, "%d of %d bytes: %s\n", got, bytes, n < 0 ? strerror(errno) : "closed");
			exit(1);
		}
		close(one);
		atomic_fetch_add(done, 1);
	}
	return unused;
}

int main(int count, char **words)
{
	pthread_t each[256];
	void *listener = 0;

	if (count < 5 || atoi(words[3]) > 256)
		return 2;
	port = atoi(words[2]), threads = atoi(words[3]), bytes = atoi(words[4]);
	if (!strcmp(words[1], "serve")) {
		int own = socket(AF_INET, SOCK_STREAM, 0), one = 1;
		struct sockaddr_in here = at();

		setsockopt(own, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		if (bind(own, (void *)&here, sizeof here) || listen(own, 4096))
			die("listen");
		listener = (void *)(intptr_t)own;
		names = words + 5, networks = count - 5;
	} else {
		int file = open(words[7], O_RDWR | O_CREAT, 0600);

		seconds = atof(words[5]), rate = atof(words[6]);
		networks = count > 8 ? atoi(words[8]) : 0;
		if (file < 0 || ftruncate(file, 8))
			die(words[7]);
		done = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		if (done == MAP_FAILED)
			die("mmap");
	}
	for (int nth = 0; nth < threads; nth++)
		pthread_create(&each[nth], 0, listener ? serve : fetch, listener);
	for (int nth = 0; nth < threads; nth++)
		pthread_join(each[nth], 0);
	return 0;
}
