//! What all sessions of a server may move together, shared among them.

use super::service::Service;
use super::session::{Session, Sharing};
use howdah_core::{Rate, Time};

/// A session that moves little, and one that waits until others have given way, has no less than this part of what all would have
/// equally: so it shows when it wants more, and its connection stays alive.
const LEAST_OF_FAIR: u64 = 16;

impl Service {
    /// Shares what all may move together among those who move something, each direction for itself: now and then, and when
    /// somebody comes or goes.
    pub(super) fn share_rate(&mut self, now: Time, is_due: bool) {
        let Some(total) = self.max_rate else { return };
        // Who comes in the moment in which another one goes, or turns round, is one who begins; of those who vanish the number tells.
        let (mut has_changed, mut sharing) = (false, 0);
        for session in self.sessions.values_mut() {
            let way = session.is_busy().then(|| session.receives());
            sharing += usize::from(way.is_some());
            if way != session.shares.map(|shares| shares.receives) {
                session.shares = way.map(|receives| Sharing {
                    receives,
                    since: now,
                });
                has_changed = true;
            }
        }
        has_changed |= sharing != self.sharing;
        self.sharing = sharing;
        let told = self.company.changes();
        if !is_due && !has_changed && told == self.told {
            return;
        }
        // What others were told does not change what is wished here: two loops that hear of each other come to an end.
        let wishes_anew = is_due || has_changed;
        let part = |of: u64| Rate::from_bits_per_sec(total.bits_per_sec() / of);
        let among = self.company.sharing() as u64;
        let least = part(among.max(1) * LEAST_OF_FAIR);
        let mut others_too = false;
        for receives in [false, true] {
            let theirs = |session: &&mut Session| {
                session
                    .shares
                    .is_some_and(|shares| shares.receives == receives)
            };
            let mut wishes = Vec::new();
            for session in self.sessions.values_mut().filter(theirs) {
                if wishes_anew {
                    session.wish = session.wants(now).map(|want| want.max(least));
                }
                wishes.push((session.group, session.wish));
            }
            let (shares, too) = self.company.share(self.index, receives, total, wishes);
            others_too |= too;
            let sessions = self.sessions.iter_mut();
            let sessions = sessions.filter(|(_, session)| theirs(session));
            for ((key, session), share) in sessions.zip(shares) {
                let share = share.max(least);
                let before = session.share.replace(share);
                if before.is_some_and(|before| share > before.mul_f64(2.0)) {
                    // One that hardly moved has little else that makes it look.
                    self.waker.wake_for(*key);
                }
            }
        }
        // Until it is known what it wants next.
        let idle = self.sessions.values_mut().filter(|s| s.shares.is_none());
        idle.for_each(|session| session.share = Some(part(among + 1)));
        if others_too {
            self.company.tell_others(self.index);
        }
        self.told = told + u64::from(others_too);
    }
}
