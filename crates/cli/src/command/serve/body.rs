//! What an answer carries, a block at a time: no more of it is in memory.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of a block.
const BLOCK: usize = 64 * 1024;
/// The bytes made on the fly: the low bits of each byte's place, so that a range can be told from another one.
static PATTERN: [u8; PERIOD + BLOCK] = pattern();
/// After so many they repeat. Ours: a prime, so that no block looks like its neighbour.
const PERIOD: usize = 65_521;

const fn pattern() -> [u8; PERIOD + BLOCK] {
    let mut bytes = [0; PERIOD + BLOCK];
    let mut at = 0;
    while at < bytes.len() {
        let place = at % PERIOD;
        bytes[at] = (place ^ (place >> 8)) as u8;
        at += 1;
    }
    bytes
}

/// An answer's content, and how much of it is left.
#[derive(Debug)]
pub struct Body {
    source: Source,
    left: u64,
}

#[derive(Debug)]
enum Source {
    Text(Bytes),
    /// The next byte's place.
    Pattern(u64),
    File {
        file: File,
        block: Vec<u8>,
    },
}

impl Body {
    /// A text.
    pub fn text(text: impl Into<Bytes>) -> Self {
        let text = text.into();
        Self { left: text.len() as u64, source: Source::Text(text) }
    }

    /// Bytes made on the fly.
    pub const fn pattern(from: u64, length: u64) -> Self {
        Self { source: Source::Pattern(from), left: length }
    }

    /// The next bytes of a file.
    pub const fn file(file: File, length: u64) -> Self {
        Self { source: Source::File { file, block: Vec::new() }, left: length }
    }

    fn poll_block(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let wanted = usize::try_from(self.left).unwrap_or(BLOCK).min(BLOCK);
        Poll::Ready(Ok(match &mut self.source {
            Source::Text(text) => text.split_to(wanted),
            Source::Pattern(at) => {
                let from = (*at % PERIOD as u64) as usize;
                *at += wanted as u64;
                Bytes::from_static(&PATTERN[from..from + wanted])
            }
            Source::File { file, block } => {
                block.resize(wanted, 0);
                let mut room = ReadBuf::new(block);
                ready!(Pin::new(file).poll_read(context, &mut room))?;
                let read = room.filled().len();
                if read == 0 {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())); // it became shorter
                }
                block.truncate(read);
                Bytes::from(std::mem::take(block))
            }
        }))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let block = ready!(self.poll_block(context));
        if let Ok(bytes) = &block {
            self.left -= bytes.len() as u64;
        }
        Poll::Ready(Some(block.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
