internal import MegatonRedis

extension Doctor {
    /// Maximum number of hosts named in a finding.
    private static let shownHosts = 10
    /// Index of `open` in a host's state; see `hostPrelude.lua`.
    private static let openField = 5

    /// Findings about the state of the queue.
    func state() async -> [Finding] {
        do {
            let status = try await Inspector(queue: JobQueue(control, keys: keys), cache: cache).status()
            var findings = status.isKnown ? [] : [unknownQueue()]
            findings += [coordinator(status), silentWorkers(status), workers(status), dead(status)]
            findings.append(try await damagedBatches())
            findings += try await brakes()
            findings.append(try await brokenOff())
            return findings
        } catch {
            return [Finding(level: .error, subject: "queue", message: "\(error)")]
        }
    }

    /// A mistyped name looks like a queue without work.
    private func unknownQueue() -> Finding {
        Finding(
            level: .warning,
            subject: "queue",
            message: "no process has used the queue \"\(keys.queue)\" on this Redis yet. Check --queue, or start "
                + "megaton coordinator and megaton worker."
        )
    }

    private static func waiting(_ count: Int) -> String { count == 1 ? "1 job waits" : "\(count) jobs wait" }

    private func coordinator(_ status: ClusterStatus) -> Finding {
        let waiting = status.intake + status.staged
        return Finding(
            level: status.leader != nil || !status.isKnown ? .ok : .warning,
            subject: "coordinator",
            message: status.leader.map { "\($0) leads" }
                ?? "none leads; \(Self.waiting(waiting)) to be admitted, and so will new ones. Start megaton coordinator."
        )
    }

    private func silentWorkers(_ status: ClusterStatus) -> Finding {
        let silent = status.workers.count - status.livingWorkers.count
        return Finding(
            level: silent == 0 ? .ok : .warning,
            subject: "silent workers",
            message: silent == 0
                ? "none"
                : "\(silent) \(silent == 1 ? "has" : "have") given no sign of life three times, and died or "
                    + "\(silent == 1 ? "hangs. Its" : "hang. Their") jobs go to others."
        )
    }

    private func workers(_ status: ClusterStatus) -> Finding {
        let waiting = status.ready + status.intake + status.staged
        let living = status.livingWorkers.count
        return Finding(
            level: living > 0 || !status.isKnown ? .ok : .warning,
            subject: "workers",
            message: living == 0
                ? "none is there; \(Self.waiting(waiting)). Start megaton worker."
                : "\(living) \(living == 1 ? "is" : "are") there"
        )
    }

    private func dead(_ status: ClusterStatus) -> Finding {
        Finding(
            level: status.dead == 0 ? .ok : .warning,
            subject: "dead jobs",
            message: status.dead == 0
                ? "none"
                : "\(status.dead): megaton dead list tells why, megaton dead requeue and megaton dead drop end it."
        )
    }

    /// A caller that waits for such a batch may wait forever.
    private func damagedBatches() async throws(RedisError) -> Finding {
        let counter = "damaged_batch_ends"
        let ends = try await control.send(["HGET", .string(keys.stat), .string(counter)]).int ?? 0
        return Finding(
            level: ends == 0 ? .ok : .warning,
            subject: "damaged batches",
            message: ends == 0
                ? "none"
                : "\(ends == 1 ? "1 job has ended that its batch" : "\(ends) jobs have ended that their batches") may not have "
                    + "counted, as a key in Redis is no longer what Megaton wrote. The workers' logs and megaton dead list "
                    + "(damaged_batch) name the batches. They may "
                    + "never end: delete \(keys.batch("<b>")), \(keys.results("<b>")) and \(keys.seen("<b>")), and submit "
                    + "under another name what is missing. HDEL \(keys.stat) \(counter) ends this warning."
        )
    }

    /// A queue that was paused for a moment and forgotten looks like one that hangs.
    private func brakes() async throws(RedisError) -> [Finding] {
        let brakes = JobQueue.Brake.allCases
        let fields = brakes.map { RedisArgument.string($0.rawValue) }
        let reply = try await control.send(RedisCommand(["HMGET", .string(keys.control)] + fields))
        let values = reply.array ?? []
        let set = zip(brakes, values).filter { $1.string == "1" }.map { $0.0 }
        if set.isEmpty { return [Finding(level: .ok, subject: "brakes", message: "none is set")] }
        return set.map { brake in
            let effect =
                switch brake {
                case .paused: "paused: no job begins"
                case .drain: "draining: no job is taken in, and what is pushed waits"
                }
            return Finding(level: .warning, subject: "brakes", message: effect + ". megaton queue resume ends it.")
        }
    }

    /// Hosts with an open circuit breaker.
    private func brokenOff() async throws(RedisError) -> Finding {
        let time = (try await control.send(["TIME"]).array ?? []).compactMap(\.int)
        guard time.count == 2 else { throw JobQueue.unexpected("TIME") }
        let now = Double(time[0] * 1000 + time[1] / 1000)
        var probes: [String: Double] = [:]
        var cursor = "0"
        repeat {
            let reply = try await control.send(["HSCAN", .string(keys.rate), .string(cursor), "COUNT", "500"])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw JobQueue.unexpected("HSCAN")
            }
            cursor = next
            for (host, state) in parts[1].dictionary {
                let numbers = state.split(separator: " ").map { Double($0) ?? 0 }
                if numbers.count > Self.openField, numbers[Self.openField] > now {
                    probes[host] = (numbers[Self.openField] - now) / 1000
                }
            }
        } while cursor != "0"
        if probes.isEmpty { return Finding(level: .ok, subject: "hosts", message: "none is broken off") }
        let named = probes.sorted { $0.key < $1.key }.prefix(Self.shownHosts)
            .map { "\($0.key) (probed in \(Int($0.value.rounded(.up))) s)" }
        let more = probes.count > named.count ? " and \(probes.count - named.count) more" : ""
        return Finding(
            level: .warning,
            subject: "hosts",
            message: "broken off after failures in a row: \(named.joined(separator: ", "))\(more). Their jobs wait."
        )
    }
}
