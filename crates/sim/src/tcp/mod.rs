//! A model of Linux TCP, complete enough for congestion control to behave over it as in the kernel. Both ends are sans-IO.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod app;
mod bursts;
mod external;
mod host_queue;
mod limits;
pub mod packet;
pub mod quic;
mod rack;
mod receiver;
mod recovery;
mod requests;
mod scoreboard;
mod sender;
mod timers;
mod undo;

pub use app::App;
pub use external::{AckEvent, External, ExternalControl, Steering};
pub use packet::{AckPacket, HEADER_BYTES, SACK_BLOCKS, Segment, mark};
pub use receiver::Receiver;
pub use sender::{Sender, SenderStats};
