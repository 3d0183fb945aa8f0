//! The receiving end of an application: it reads what arrives, records it, and sends the next request.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use super::call::Frames;
use super::page::Loader;
use super::video::Player;
use crate::setup::Traffic;

/// A client of a flow.
#[derive(Clone, Debug)]
pub enum Client {
    /// The receiver of a call.
    Call(Frames),
    /// A video player.
    Video(Player),
    /// A browser.
    Page(Loader),
}

/// Reaction of a client to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It reads on.
    None,
    /// It requests `size` bytes, `pause` from now.
    Request {
        /// Bytes of the response.
        size: u64,
        /// Time from now to the request.
        pause: Span,
    },
    /// It has got everything.
    Done,
}

impl Client {
    /// Creates the client of an application, if it has one. The flow started at `start`, and its connection is established at
    /// `now`.
    pub fn of(traffic: &Traffic, start: Time, now: Time) -> Option<Self> {
        Some(match traffic {
            Traffic::Call(call) => Self::Call(Frames::new(*call, now)),
            Traffic::Video(video) => Self::Video(Player::new(video.clone(), start)),
            Traffic::Page(page) => Self::Page(Loader::new(*page, start)),
            _ => return None,
        })
    }

    /// Handles new data: `in_order` bytes have arrived by `now`, of `written` that the sender has written.
    pub fn on_bytes(&mut self, now: Time, in_order: u64, written: u64) -> Reaction {
        match self {
            Self::Call(frames) => {
                frames.on_bytes(now, in_order);
                Reaction::None
            }
            Self::Video(player) => {
                player.on_bytes(now, in_order);
                if in_order < written {
                    return Reaction::None;
                }
                let request = player.on_segment(now);
                Reaction::Request { size: request.size, pause: request.pause }
            }
            Self::Page(loader) => loader.on_bytes(now, in_order),
        }
    }
}
