// Connections over loopback, opened and closed as fast as asked. The server sends BYTES and closes first.
// usage: load serve PORT THREADS BYTES
//        load fetch PORT THREADS BYTES SECONDS RATE PROGRESS    RATE connections a second over all threads; 0: as many as there can be
// PROGRESS: a file whose first eight bytes count the connections that brought all their bytes. Exit 1 at the first that did not.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
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

static int port, threads, bytes;
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

static void *serve(void *listener)
{
	char *block = calloc(1, bytes), rest[64];

	for (;;) {
		int one = accept((int)(intptr_t)listener, 0, 0);

		if (one < 0)
			die("accept");
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
	} else {
		int file = open(words[7], O_RDWR | O_CREAT, 0600);

		seconds = atof(words[5]), rate = atof(words[6]);
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
