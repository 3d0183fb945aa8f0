//! Loss recovery for hosts without such a state machine: an episode ends with the delivery of a packet sent after its start, or
//! after its last loss.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::units::Time;

/// Effect of a delivery on the episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Nothing,
    /// The episode was spurious: none of the packets marked lost was lost.
    Undone,
}

/// The last loss episode, and whether it lasts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    /// True if each loss makes it last for another round.
    continues: bool,
    /// Its beginning, or its last loss if it continues.
    began: Option<Time>,
    lasts: bool,
    /// Packets marked lost since then that have not arrived; a mark makes them infinitely many, since it proves congestion.
    missing: u64,
    /// A packet sent after the beginning has been delivered: the ACK in progress is the last of the episode.
    is_over: bool,
    /// Number of spurious episodes so far.
    undone: u32,
}

impl Episode {
    /// No episode yet. With `continues`, each lasts until a round without loss.
    // spec: RFC 9002 §7.3.2; Google's QUIC, BbrSender, for those that continue
    pub(crate) fn new(continues: bool) -> Self {
        Self { continues, ..Self::default() }
    }

    /// True if a packet sent at this time left after the beginning of the last episode, so that its loss does not belong to it.
    // spec: RFC 9002 §B.5 InCongestionRecovery
    pub(crate) fn is_before(&self, sent: Time) -> bool {
        self.began.is_none_or(|began| began < sent)
    }

    /// True if the loss of a packet sent at this time begins another episode, once this one is over.
    pub(crate) fn begins_another(&self, sent: Time) -> bool {
        !self.continues && self.is_before(sent)
    }

    /// Handles the loss of packets sent at `sent`. Without a present episode they begin one, unless they belong to the last.
    /// Returns true if an episode is present.
    // spec: RFC 9002 §7.3.2
    pub(crate) fn on_lost(&mut self, now: Time, sent: Time, packets: u32) -> bool {
        if !self.lasts && self.is_before(sent) {
            self.begin(now);
        }
        if self.lasts {
            self.missing = self.missing.saturating_add(packets.into());
            if self.continues {
                (self.began, self.is_over) = (Some(now), false);
            }
        }
        self.lasts
    }

    pub(crate) fn on_marks(&mut self, now: Time) {
        if !self.lasts {
            self.begin(now);
        }
        self.missing = u64::MAX;
    }

    const fn begin(&mut self, now: Time) {
        *self = Self { began: Some(now), lasts: true, missing: 0, is_over: false, ..*self };
    }

    /// Handles an ACK whose newest packet was sent at `sent`, with `late` packets delivered that had been marked lost.
    #[inline]
    pub(crate) fn on_delivered(&mut self, sent: Time, late: u64) -> Outcome {
        if !self.lasts {
            return Outcome::Nothing;
        }
        if late > 0 && self.missing < u64::MAX {
            self.missing = self.missing.saturating_sub(late);
            if self.missing == 0 {
                return Outcome::Undone;
            }
        }
        self.is_over |= self.is_before(sent);
        Outcome::Nothing
    }

    /// True if marks justify the reduction of a present episode.
    pub(crate) const fn is_marked(&self) -> bool {
        self.lasts && self.missing == u64::MAX
    }

    /// Ends an episode that was spurious, so that the next loss begins another. Returns true if one was present.
    pub(crate) fn undo(&mut self) -> bool {
        let was_present = self.lasts;
        if was_present {
            *self = Self { undone: self.undone.wrapping_add(1), ..Self::new(self.continues) };
        }
        was_present
    }

    /// Ends an episode that is over. Returns true if there was one.
    pub(crate) fn end(&mut self) -> bool {
        let was_over = core::mem::take(&mut self.is_over);
        self.lasts &= !was_over;
        was_over
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
        episode.on_lost(AT(10), AT(1), 1);
        assert_eq!(episode.on_delivered(AT(10), 0), Outcome::Nothing);
        episode.on_lost(AT(20), AT(12), 1);
        assert!(!episode.end());
        episode.on_delivered(AT(11), 0);
        assert!(episode.end() && !episode.end());
        assert_eq!(episode.on_delivered(AT(30), 0), Outcome::Nothing);
        assert!(!episode.end());
    }

    /// BBRv1 conserves packets for the first round of an episode only.
    #[test]
    fn an_episode_that_continues_ends_after_a_round_without_loss() {
        let mut episode = Episode::new(true);
        assert!(episode.on_lost(AT(10), AT(1), 1));
        // An ACK delivers a packet sent after the beginning, and shows another such packet lost: the episode goes on.
        episode.on_delivered(AT(12), 0);
        assert!(episode.on_lost(AT(20), AT(11), 1));
        assert!(!episode.end());
        episode.on_delivered(AT(20), 0);
        assert!(!episode.end());
        episode.on_delivered(AT(21), 0);
        assert!(episode.end());
    }

    #[test]
    fn a_packet_sent_before_the_episode_began_belongs_to_it_even_once_it_is_over() {
        let mut episode = Episode::default();
        assert!(episode.on_lost(AT(10), AT(1), 1));
        episode.on_delivered(AT(11), 0);
        assert!(episode.end());
        assert!(!episode.on_lost(AT(20), AT(10), 1));
        assert!(episode.on_lost(AT(20), AT(11), 1));
    }

    #[test]
    fn an_episode_is_undone_when_all_that_it_lost_has_arrived() {
        let mut episode = Episode::default();
        episode.on_lost(AT(10), AT(1), 2);
        assert_eq!(episode.on_delivered(AT(5), 1), Outcome::Nothing);
        assert_eq!(episode.on_delivered(AT(5), 1), Outcome::Undone);
        assert!(episode.undo());
        episode.on_lost(AT(20), AT(11), 1);
        episode.on_delivered(AT(21), 0);
        assert!(episode.end());
        assert_eq!(episode.undone(), 1);
    }

    #[test]
    fn a_mark_cannot_be_undone() {
        let mut episode = Episode::default();
        episode.on_lost(AT(10), AT(1), 1);
        episode.on_marks(AT(11));
        assert_eq!(episode.on_delivered(AT(5), 9), Outcome::Nothing);
        assert!(episode.is_marked());
        episode.on_delivered(AT(12), 0);
        assert!(episode.end());
    }
}
