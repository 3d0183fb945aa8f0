//! Runs s2n-quic's endpoints on the path, with its own executor of virtual time.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod control;
mod network;
mod providers;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use bbrlab_core::{Rng, Time};
use bbrlab_sim::record::Output;
use bbrlab_sim::script::Script;
use bbrlab_sim::setup::{FlowSetup, Setup};
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::io::testing::{Handle, primary, spawn, test_seed};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as s2n_tls;
use s2n_quic::stream::SendStream;
use s2n_quic::{Client, Server};

use super::stage::Stage;
use super::{CHUNK, IP_UDP, datagram, send_buffer, tls, window};
use control::ObservedFactory;
use network::{Shared, SharedNetwork, now, sleep_until};
use providers::{Ids, Resets, SeededRng};

use crate::{Error, Result, StackError};

/// Parts of a seed used for the ends and their controllers.
const ENDPOINT: u64 = 0x656e_6470;
const CONTROLLER: u64 = 0x6363;
/// Idle timeout, long enough that no connection of a run is closed.
const IDLE: Duration = Duration::from_secs(10_000_000);
/// Longest handshake over a path of seconds with losses. Ours.
const HANDSHAKE: Duration = Duration::from_secs(100);

pub fn run(setup: &Setup, script: Option<&Script>, progress: &mut dyn FnMut(Time)) -> Result<Output> {
    tls::seed(setup.seed);
    let shared = Shared::new(Stage::new(setup, script));
    let between = SharedNetwork { shared: shared.clone(), progress, armed: Time::ZERO };
    let internals = shared.clone();
    let played = test_seed(between, setup.seed, move |handle| {
        for (index, flow) in setup.flows.iter().enumerate().filter(|(_, flow)| !flow.is_tcp) {
            connect(handle, &internals, index, flow).map_err(Error::S2n)?;
        }
        // The primary task: the run ends with it.
        primary::spawn(async move {
            network::end(&internals).await;
            internals.lock().is_over = true;
        });
        Ok(())
    });
    played.map_err(|error| match error.downcast() {
        Ok(error) => *error,
        Err(error) => Error::S2n(error.to_string().into()),
    })?;
    {
        // Each of them owns its task, which owns the run.
        let mut run = shared.lock();
        run.writers.clear();
        run.ending = None;
    }
    let run = shared.into_inner().ok_or(Error::S2nTask)?;
    if let Some(failure) = run.failure {
        return Err(failure);
    }
    Ok(run.stage.finish("quic:s2n"))
}

/// Starts both ends of a flow.
fn connect(handle: &Handle, shared: &Shared, index: usize, flow: &FlowSetup) -> Result<(), StackError> {
    let (seed, sender, held, has_script) = {
        let run = shared.lock();
        let stage = &run.stage;
        let sender = stage.tally.flows[index].sender.clone();
        (stage.setup.seed, sender, send_buffer(&stage.setup, flow), stage.has_script())
    };
    let dice = |part: u64| Rng::derive(seed, ENDPOINT + ((index as u64) << 32) + (part << 56));
    let (server_tls, client_tls) = tls::configs(rustls::crypto::aws_lc_rs::default_provider())?;
    let (server_tls, client_tls) = (s2n_tls::Server::from(server_tls), s2n_tls::Client::from(client_tls));
    let mtu = datagram(flow) + IP_UDP as u16;
    let io = || {
        let builder = handle.builder().with_max_mtu(mtu);
        if has_script { builder.with_initial_mtu(mtu).with_base_mtu(mtu) } else { builder }.build()
    };
    let limits = || Limits::new().with_max_idle_timeout(IDLE)?.with_max_handshake_duration(HANDSHAKE);
    let mut receiving =
        limits()?.with_data_window(window(flow).into())?.with_unidirectional_data_window(window(flow).into())?;
    if let Some(ack) = flow.host.ack {
        receiving = receiving.with_max_ack_delay(Duration::from_nanos(ack.delay.as_nanos()))?;
    }
    let server = Server::builder()
        .with_limits(receiving)?
        .with_io(io()?)?
        .with_tls(server_tls)?
        .with_random(SeededRng(dice(1)))?
        .with_connection_id(Ids(dice(2)))?
        .with_stateless_reset_token(Resets(dice(3)))?
        .with_congestion_controller(ObservedFactory::receiver())?
        .start()?;
    let controller = Rng::derive(seed, CONTROLLER + ((index as u64) << 16)).next_u64();
    let client = Client::builder()
        .with_limits(limits()?.with_max_send_buffer_size(held)?)?
        .with_io(io()?)?
        .with_tls(client_tls)?
        .with_random(SeededRng(dice(4)))?
        .with_connection_id(Ids(dice(5)))?
        .with_stateless_reset_token(Resets(dice(6)))?
        .with_congestion_controller(ObservedFactory::sender(flow, controller, sender))?
        .start()?;
    let (left, right) = (client.local_addr()?, server.local_addr()?);
    shared.lock().ends.push((index, [left, right]));
    spawn(receive(shared.clone(), index, server));
    spawn(send(shared.clone(), index, client, right, u64::from(held)));
    Ok(())
}

/// Runs the receiving application.
async fn receive(shared: Shared, index: usize, mut server: Server) {
    while let Some(mut connection) = server.accept().await {
        while let Ok(Some(mut stream)) = connection.accept_receive_stream().await {
            while let Ok(Some(bytes)) = stream.receive().await {
                let mut run = shared.lock();
                if run.stage.tally.flows[index].on_read(now(), bytes.len() as u64)
                    && let Some(writer) = run.writers[index].take()
                {
                    writer.wake();
                }
            }
        }
    }
}

/// Runs the sending application, which holds its endpoint until the end of the run.
async fn send(shared: Shared, index: usize, client: Client, to: SocketAddr, held: u64) {
    let (name, start) = {
        let run = shared.lock();
        let flow = &run.stage.setup.flows[index];
        (flow.name.clone(), flow.start)
    };
    sleep_until(start).await;
    if let Err(source) = write(&shared, index, &client, to, held).await {
        let mut run = shared.lock();
        if !run.is_over {
            run.failure.get_or_insert(Error::Flow { stack: "s2n-quic", flow: name, source });
        }
    }
}

async fn write(shared: &Shared, index: usize, client: &Client, to: SocketAddr, held: u64) -> Result<(), StackError> {
    let mut connection = client.connect(Connect::new(to).with_server_name(tls::NAME)).await?;
    let mut stream = connection.open_send_stream().await?;
    {
        let run = &mut *shared.lock();
        run.stage.tally.flows[index].begin(now(), &run.stage.setup.flows[index]);
    }
    let zeros = Bytes::from_static(&[0; CHUNK]);
    loop {
        let wanted = written(shared, index, &mut stream, held).await;
        if wanted == 0 {
            break;
        }
        stream.send(zeros.slice(..wanted)).await?;
        shared.lock().stage.tally.flows[index].on_written(wanted as u64);
    }
    stream.finish()?;
    // A dropped connection would be closed immediately.
    let end = shared.lock().stage.setup.duration;
    sleep_until(end).await;
    Ok(())
}

/// Waits until the application has written data, and with a script until the stack's `held` bytes allow more. Returns the
/// number of bytes to send, at most a chunk; 0 once the application will never write again.
async fn written(shared: &Shared, index: usize, stream: &mut SendStream, held: u64) -> usize {
    let mut alarm = None;
    poll_fn(move |context| {
        // Free space of its send buffer; an error of the stack is reported by the next write.
        let free = match stream.poll_send_ready(context) {
            Poll::Ready(Ok(free)) => free as u64,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        let mut run = shared.lock();
        let has_script = run.stage.has_script();
        let flow = &mut run.stage.tally.flows[index];
        flow.on_app(now());
        let room = if has_script { (flow.shallow() + free).saturating_sub(held) } else { u64::MAX };
        let wanted = flow.to_write().min(CHUNK as u64).min(room) as usize;
        if wanted > 0 || flow.is_written() {
            return Poll::Ready(wanted);
        }
        let next = flow.next_app();
        run.writers[index] = Some(context.waker().clone());
        drop(run);
        if next != Time::NEVER {
            let mut sleep = Box::pin(sleep_until(next));
            let _ = sleep.as_mut().poll(context);
            alarm = Some(sleep);
        }
        let _ = &alarm;
        Poll::Pending
    })
    .await
}
