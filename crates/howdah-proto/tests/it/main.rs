//! The tests of the crate that need none of its insides, a module for each subject, as one program: linking a program for each took longer than
//! running them. `tools/run_tests.py` (`make test-programs`) gives each module a process of its own.

mod amplification;
mod announced;
mod background;
mod chaos;
mod crowd;
mod door;
mod drops;
mod ecn;
mod economy;
mod endpoint;
mod endpoint_loops;
mod faster;
mod full_queues;
mod hostile;
mod hosts;
mod jitter;
mod keys;
mod marks;
mod misbehaviour;
mod mtu;
mod outages;
mod rate;
mod rebinding;
mod sharing;
mod short_queues;
mod slow_paths;
mod slow_sinks;
mod starts;
mod support;
mod tls;
mod train;
mod varying;
mod warm;
