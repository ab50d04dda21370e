extension ClusterStatus {
    /// One shard of a queue that has several.
    package struct Shard: Sendable, Codable, Equatable {
        package var number: Int
        /// URL of its Redis, without user and password.
        package var address: String
        /// If false, the numbers of the queue lack those of this shard.
        package var isReachable = true
        /// Jobs that wait for their admission.
        package var intake = 0
        package var ready = 0
        package var running = 0
        /// Jobs that wait for a retry, for their host or for the time before which they may not begin.
        package var waiting = 0
        package var leader: String?

        init(number: Int, address: String) {
            self.number = number
            self.address = address
        }

        mutating func describe(_ status: ClusterStatus) {
            intake = status.intake + status.staged
            (ready, running, waiting) = (status.ready, status.running, status.delayed + status.held)
            leader = status.leader
        }
    }

    /// Adds the state of a shard. Its workers work for the other shards too.
    mutating func add(_ shard: ClusterStatus) {
        intake += shard.intake
        staged += shard.staged
        ready += shard.ready
        running += shard.running
        delayed += shard.delayed
        held += shard.held
        heldHosts += shard.heldHosts
        dead += shard.dead
        done += shard.done
        failed += shard.failed
        cancelled += shard.cancelled
        retried += shard.retried
        stalled += shard.stalled
        // A batch of a submitter is known to all shards.
        batches = max(batches, shard.batches)
        isKnown = isKnown || shard.isKnown
        unreadIntakes = unreadIntakes ?? shard.unreadIntakes
        publicIntake.merge(shard.publicIntake, uniquingKeysWith: +)
        overdueLease = max(overdueLease, shard.overdueLease)
        if let damaged = shard.damagedKeys { damagedKeys = (damagedKeys ?? []) + damaged }
        pauses = Set(pauses + shard.pauses).sorted()
        for worker in shard.workers {
            if let index = workers.firstIndex(where: { $0.name == worker.name }) {
                workers[index].running += worker.running
                workers[index].silent = min(workers[index].silent, worker.silent)
            } else {
                workers.append(worker)
            }
        }
        for coordinator in shard.coordinators where !coordinators.contains(coordinator) {
            coordinators.append(coordinator)
        }
        for part in shard.former where !former.contains(part) { former.append(part) }
    }

    /// Describes the shards, when all were added.
    mutating func finish(_ parts: [Shard]) {
        shards = parts
        workers.sort { $0.name < $1.name }
        coordinators.sort { $0.name < $1.name }
        // Without a leader in one of them, jobs wait: the queue has none.
        let leaders = parts.filter(\.isReachable).map(\.leader)
        leader = leaders.contains(nil) ? nil : Set(leaders.compactMap(\.self)).sorted().joined(separator: ", ")
    }
}
