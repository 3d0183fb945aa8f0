//! Loss recovery for hosts without such a state machine: an episode lasts until a packet sent after its start is delivered.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::units::Time;

/// Effect of a delivery on the episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Nothing,
    /// The episode was spurious: none of the packets marked lost was lost.
    Undone,
}

/// The present loss episode, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    began: Option<Time>,
    /// Packets marked lost since then that have not arrived; a mark makes them infinitely many, since it proves congestion.
    missing: u64,
    /// A packet sent after the beginning has been delivered: the ACK in progress is the last of the episode.
    is_over: bool,
    /// Number of spurious episodes so far.
    undone: u32,
}

impl Episode {
    // spec: RFC 9002 §7.3.2
    pub(crate) fn on_lost(&mut self, now: Time, packets: u32) {
        if self.began.is_none() {
            *self = Self { began: Some(now), ..self.ended() };
        }
        self.missing = self.missing.saturating_add(packets.into());
    }

    pub(crate) fn on_marks(&mut self, now: Time) {
        self.began.get_or_insert(now);
        self.missing = u64::MAX;
    }

    /// Handles an ACK whose newest packet was sent at `sent`, with `late` packets delivered that had been marked lost.
    #[inline]
    pub(crate) fn on_delivered(&mut self, sent: Time, late: u64) -> Outcome {
        let Some(began) = self.began else {
            return Outcome::Nothing;
        };
        if late > 0 && self.missing < u64::MAX {
            self.missing = self.missing.saturating_sub(late);
            if self.missing == 0 {
                *self = Self { undone: self.undone.wrapping_add(1), ..Self::default() };
                return Outcome::Undone;
            }
        }
        self.is_over |= sent > began;
        Outcome::Nothing
    }

    /// Ends an episode that is over. Returns true if there was one.
    pub(crate) fn end(&mut self) -> bool {
        let was_over = self.is_over;
        if was_over {
            *self = self.ended();
        }
        was_over
    }

    const fn ended(self) -> Self {
        Self { began: None, missing: 0, is_over: false, undone: self.undone }
    }

    pub(crate) const fn undone(self) -> u32 {
        self.undone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Time = Time::micros;

    #[test]
    fn an_episode_ends_with_a_packet_sent_after_its_beginning() {
        let mut episode = Episode::default();
        assert_eq!(episode.on_delivered(AT(9), 0), Outcome::Nothing);
        episode.on_lost(AT(10), 1);
        assert_eq!(episode.on_delivered(AT(10), 0), Outcome::Nothing);
        episode.on_lost(AT(20), 1);
        assert!(!episode.end());
        episode.on_delivered(AT(11), 0);
        assert!(episode.end() && !episode.end());
        assert_eq!(episode.on_delivered(AT(30), 0), Outcome::Nothing);
        assert!(!episode.end());
    }

    #[test]
    fn an_episode_is_undone_when_all_that_it_lost_has_arrived() {
        let mut episode = Episode::default();
        episode.on_lost(AT(10), 2);
        assert_eq!(episode.on_delivered(AT(5), 1), Outcome::Nothing);
        assert_eq!(episode.on_delivered(AT(5), 1), Outcome::Undone);
        episode.on_lost(AT(20), 1);
        episode.on_delivered(AT(21), 0);
        assert!(episode.end());
        assert_eq!(episode.undone(), 1);
    }

    #[test]
    fn a_mark_cannot_be_undone() {
        let mut episode = Episode::default();
        episode.on_lost(AT(10), 1);
        episode.on_marks(AT(11));
        assert_eq!(episode.on_delivered(AT(5), 9), Outcome::Nothing);
        episode.on_delivered(AT(12), 0);
        assert!(episode.end());
    }
}
