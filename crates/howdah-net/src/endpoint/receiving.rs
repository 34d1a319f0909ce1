//! From the socket to the connections.

use super::{Endpoint, is_broken_socket, is_unreachable};
use crate::application::{Application, Placement};
use crate::clock::{Clock, wall_now};
use crate::parcel::Parcel;
use crate::socket::UdpPort;
use crate::tunnel::Lanes;
use howdah_core::{Ecn, ObjectId, Time};
use howdah_proto::endpoint::{ARRIVALS_MAX, ConnKey, Found, Incoming};
use howdah_proto::{Arriving, Connection, Handled};
use quinn_udp::RecvMeta;
use std::io::{self, IoSliceMut};

/// Buffers per receive call.
const RECEIVE_BATCH: usize = 16;
/// Receive calls before the loop turns to sending.
const RECEIVE_CALLS: usize = 4;

impl Endpoint {
    /// Reads what has arrived at the socket and by lanes, within bounds. Returns whether there may be more.
    pub(super) fn receive_here<A: Application>(&mut self, application: &mut A) -> io::Result<bool> {
        self.gather.begin_round();
        self.arrivals.begin_turn();
        // What was left over comes first.
        self.look_through(application);
        for call in 0..RECEIVE_CALLS {
            if self.arrivals.len() + RECEIVE_BATCH > ARRIVALS_MAX {
                return Ok(true);
            }
            let mut meta = [RecvMeta::default(); RECEIVE_BATCH];
            self.refill();
            let received = {
                let mut slices: [IoSliceMut<'_>; RECEIVE_BATCH] = {
                    let mut buffers = self.receive_buffers.iter_mut();
                    std::array::from_fn(|_| {
                        IoSliceMut::new(buffers.next().map_or(&mut [], Vec::as_mut_slice))
                    })
                };
                // In turns: neither may keep the other waiting.
                let by_lanes = call % 2 == 1 || self.port.is_none();
                match self.port.as_ref().filter(|port| port.reads()) {
                    Some(port) if !(by_lanes && self.lanes.is_waiting()) => {
                        port.recv(&mut slices, &mut meta)
                    }
                    _ => self.lanes.recv(&mut slices, &mut meta),
                }
            };
            let count = match received {
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && self.lanes.is_waiting() => {
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(!self.arrivals.is_empty());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if is_unreachable(&e) => {
                    self.machine.on_unreachable();
                    continue;
                }
                Err(e) if is_broken_socket(&e) => return Err(e),
                Err(_) => continue,
            };
            // In this order: a pause between the two makes packets seem to have come later than they
            // did, which passes; the other way round they would seem to have come before they
            // could, and one such packet makes all others look delayed for seconds.
            let wall = wall_now();
            let now = self.clock.now();
            for (at, meta) in meta.into_iter().take(count).enumerate() {
                let Some(buffer) = self.receive_buffers.get_mut(at) else {
                    break;
                };
                let rx_time = Clock::from_wall(now, wall, meta.timestamp);
                self.gather.on_received(meta.len);
                let parcel = Parcel {
                    buffer: std::mem::take(buffer),
                    meta,
                    rx_time,
                    counted_for: None,
                };
                self.sort(parcel);
            }
            self.receive_buffers.retain(|buffer| !buffer.is_empty());
            self.look_through(application);
            if count < RECEIVE_BATCH && !self.lanes.is_waiting() {
                return Ok(!self.arrivals.is_empty());
            }
        }
        Ok(true)
    }

    /// As many buffers as a receive call takes.
    fn refill(&mut self) {
        while self.receive_buffers.len() < RECEIVE_BATCH {
            self.receive_buffers.push(self.spares.take());
        }
    }

    /// Hands out what has arrived, as far as this turn goes.
    pub(super) fn look_through<A: Application>(&mut self, application: &mut A) {
        let now = self.clock.now();
        while let Some(parcel) = self.arrivals.take() {
            self.isolated(application, |endpoint, application| {
                endpoint.handle_buffer(now, parcel, application);
            });
            self.at_work = None;
        }
    }

    /// Whose a datagram is, or which other loop's. What is nobody's is answered here, if at all.
    fn find<A: Application>(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        application: &A,
    ) -> Result<Option<ConnKey>, usize> {
        let gives_way = |key| application.gives_way(key);
        match self.machine.find(now, incoming, gives_way) {
            Found::Connection(key) => Ok(Some(key)),
            Found::Elsewhere(at) => Err(at),
            Found::Answer(answer) => {
                let (to, from) = (incoming.from, incoming.local_ip);
                // A lost answer is asked for again.
                let _ = self.send_to(to, from, &answer, answer.len(), Ecn::NotEct);
                Ok(None)
            }
            Found::Nobody => Ok(None),
        }
    }

    fn handle_buffer<A: Application>(&mut self, now: Time, parcel: Parcel, application: &mut A) {
        let Parcel {
            mut buffer,
            meta,
            rx_time,
            counted_for,
        } = parcel;
        if let (Some(counting), Some(key)) = (&mut self.counting, counted_for) {
            counting.lies_no_more(key);
        }
        let from = UdpPort::canonical(meta.addr);
        let stride = meta.stride.max(1);
        let ecn = UdpPort::ecn_of(&meta);
        let mut owner: Option<(ConnKey, ObjectId)> = None;
        let mut parts: Vec<Placement> = Vec::with_capacity(meta.len.div_ceil(stride));
        let mut start = 0;
        while start < meta.len {
            let end = (start + stride).min(meta.len);
            self.at_work = None;
            let incoming = Incoming {
                from,
                local_ip: meta.dst_ip,
                datagram: &buffer[start..end],
                waited: now.since(rx_time),
                stays: Lanes::is_one(from),
            };
            let found = match self.find(now, &incoming, application) {
                Ok(found) => found,
                Err(at) => {
                    // Others of the same buffer may be for this loop, or it has gone there since this was read.
                    self.hand(at, Parcel::of_one(&buffer[start..end], meta, rx_time));
                    None
                }
            };
            if let Some(counting) = &mut self.counting {
                counting.work(found);
            }
            if let Some(key) = found {
                self.at_work = Some(key);
                let accept_data = application.accepts_data(key);
                let arriving = Arriving {
                    from,
                    rx_time,
                    ecn,
                    absent: 0,
                    accept_data,
                };
                let Some(handled) =
                    self.machine
                        .handle(now, key, &arriving, &mut buffer[start..end])
                else {
                    break;
                };
                if let Handled::Nothing = handled
                    && owner.is_none()
                {
                    // The message that announces an object may stand right before its first bytes.
                    self.events(now, key, application);
                }
                if let Handled::Data {
                    object,
                    parts: placed,
                } = handled
                {
                    if owner.is_some_and(|o| o != (key, object)) {
                        // Two objects in one buffer are rare: the first one gets a copy.
                        if let Some((key, object)) = owner {
                            self.at_work = Some(key);
                            let (mut copy, parts) = copy_of(&buffer, &parts);
                            application.place(key, object, &mut copy, &parts);
                        }
                        parts.clear();
                    }
                    owner = Some((key, object));
                    parts.extend(placed.iter().map(|p| Placement {
                        at: start + p.at,
                        range: p.range,
                    }));
                }
            }
            start = end;
        }
        if let Some((key, object)) = owner {
            self.at_work = Some(key);
            application.place(key, object, &mut buffer, &parts);
        }
        while let Some(spare) = application.take_spare() {
            self.spares.put(spare);
        }
        self.spares.put(buffer);
    }
}

/// What stands in these parts of a buffer and nothing else: how often one object follows another there is a peer's choice.
fn copy_of(buffer: &[u8], parts: &[Placement]) -> (Vec<u8>, Vec<Placement>) {
    let mut copy = Vec::with_capacity(parts.iter().map(|part| part.range.len() as usize).sum());
    let moved = parts.iter().filter_map(|part| {
        let bytes = buffer.get(part.at..)?.get(..part.range.len() as usize)?;
        let at = copy.len();
        copy.extend_from_slice(bytes);
        Some(Placement { at, ..*part })
    });
    let moved = moved.collect();
    (copy, moved)
}

/// Places what came before its object was announced, if that is known now. Returns whether there was any.
pub(super) fn place_early<A: Application>(
    now: Time,
    key: ConnKey,
    connection: &mut Connection,
    application: &mut A,
) -> bool {
    let mut any = false;
    while let Some((object, mut buffer, parts)) = connection.poll_early(now) {
        any = true;
        let placements: Vec<Placement> = parts
            .iter()
            .map(|part| Placement {
                at: part.at,
                range: part.range,
            })
            .collect();
        if !placements.is_empty() {
            application.place(key, object, &mut buffer, &placements);
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::ByteRange;

    /// Two objects whose single bytes stand by turns in a buffer: each turn had the whole buffer copied.
    #[test]
    fn h18_objects_that_alternate_in_a_buffer_are_copied_once() {
        let buffer: Vec<u8> = (0..60_000).map(|at| at as u8).collect();
        let part = |at: usize, len: u64| Placement {
            at,
            range: ByteRange::with_len(7 * at as u64, len),
        };
        let (mut copied, mut turns) = (0, 0);
        for at in (22..buffer.len() - 40).step_by(40) {
            let parts = [part(at, 1), part(at + 5, 2)];
            let (copy, moved) = copy_of(&buffer, &parts);
            for (part, moved) in parts.iter().zip(&moved) {
                assert_eq!(part.range, moved.range);
                let len = part.range.len() as usize;
                assert_eq!(copy[moved.at..][..len], buffer[part.at..][..len]);
            }
            (copied, turns) = (copied + copy.len(), turns + 1);
        }
        assert_eq!((turns > 1_000, copied), (true, 3 * turns));
    }
}
