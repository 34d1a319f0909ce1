//! A panic in the work for one connection ends that one, and not those of everybody else.

use crate::application::Application;
use crate::endpoint::Endpoint;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

impl Endpoint {
    /// Does what `work` says. If it panics while it is [at work](Endpoint::at_work) for one connection of a
    /// server, that connection is forgotten, the application is told, and the rest goes on.
    ///
    /// Nothing is sent to the peer: what would have to be asked for its last word is what broke. It
    /// notices the silence.
    pub(crate) fn isolated<A: Application, R: Default>(
        &mut self,
        application: &mut A,
        work: impl FnOnce(&mut Self, &mut A) -> R,
    ) -> R {
        if !self.accepts() {
            return work(self, application);
        }
        // What a panic leaves half done belongs to that connection, and is dropped.
        match catch_unwind(AssertUnwindSafe(|| work(self, application))) {
            Ok(result) => result,
            Err(panic) => {
                let Some(key) = self.at_work.take() else {
                    resume_unwind(panic);
                };
                let remote = self.remote(key);
                self.remove(key);
                application.on_panic(key, remote);
                R::default()
            }
        }
    }
}
