internal import MegatonPipeline
internal import MegatonRedis

extension Doctor {
    /// Maximum number of hosts named in a finding.
    private static let shownHosts = 10

    /// Findings about the state of the queue.
    func state() async -> [Finding] {
        do {
            let status = try await Inspector(queue: JobQueue(control, keys: keys), cache: control).status()
            var findings = status.isKnown ? [] : [unknownQueue()]
            findings += [coordinator(status), silentWorkers(status), workers(status), dead(status)]
            findings += pausedWorkers(status) + versions(status)
            findings.append(try await damagedBatches())
            findings.append(try await droppedReplies())
            findings.append(try await webhooks(leader: status.leader))
            findings += try await pauses()
            findings.append(try await openCircuits())
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

    private func versions(_ status: ClusterStatus) -> [Finding] {
        if !status.versionWarnings.isEmpty {
            return status.versionWarnings.map { Finding(level: .warning, subject: "versions", message: $0) }
        }
        let version = status.versionCounts.first ?? "no process has reported one"
        return [Finding(level: .ok, subject: "versions", message: version)]
    }

    private func coordinator(_ status: ClusterStatus) -> Finding {
        let waiting = status.intake + status.staged
        if let leader = status.leader { return Finding(level: .ok, subject: "coordinator", message: "\(leader) leads") }
        guard status.isKnown else {
            return Finding(level: .ok, subject: "coordinator", message: "none, and the queue was never used")
        }
        return Finding(
            level: .warning,
            subject: "coordinator",
            message:
                "no coordinator leads; \(ClusterStatus.waiting(waiting)) to be admitted. A worker takes its place "
                + "within some seconds if there is one; otherwise start megaton coordinator or megaton worker."
        )
    }

    /// Maximum number of workers that a message names.
    private static let shownWorkers = 5

    private func silentWorkers(_ status: ClusterStatus) -> Finding {
        let living = Set(status.livingWorkers.map(\.name))
        let names = status.workers.map(\.name).filter { !living.contains($0) }
        let silent = names.count
        let shown = names.prefix(Self.shownWorkers).joined(separator: ", ") + (silent > Self.shownWorkers ? ", …" : "")
        return Finding(
            level: silent == 0 ? .ok : .warning,
            subject: "silent workers",
            message: silent == 0
                ? "none"
                : "\(silent) \(silent == 1 ? "worker has" : "workers have") missed three heartbeats and died or "
                    + "\(silent == 1 ? "hangs" : "hang"): \(shown). \(silent == 1 ? "Its" : "Their") jobs go to "
                    + "other workers."
        )
    }

    private func workers(_ status: ClusterStatus) -> Finding {
        let living = status.livingWorkers.count
        return Finding(
            level: living > 0 || !status.isKnown ? .ok : .warning,
            subject: "workers",
            message: living == 0
                ? status.missingWorkers
                : "\(living) \(living == 1 ? "is" : "are") running"
        )
    }

    /// Workers that are there and claim few jobs or none.
    private func pausedWorkers(_ status: ClusterStatus) -> [Finding] {
        status.workerProblems.map { problem in
            Finding(
                level: .warning,
                subject: "workers",
                message: "\(FieldProblem.sentence(problem)) Make room, or repair its disk; it tries again by itself."
            )
        }
    }

    private func dead(_ status: ClusterStatus) -> Finding {
        Finding(
            level: status.dead == 0 ? .ok : .warning,
            subject: "dead jobs",
            message: status.dead == 0
                ? "none"
                : "\(status.dead). megaton dead list shows the reasons; megaton dead requeue runs them again, and "
                    + "megaton dead drop deletes them."
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
                : "\(ends == 1 ? "1 job has" : "\(ends) jobs have") ended without being counted by their batch, "
                    + "because a key of the batch was changed outside of Megaton. Such a batch may never end. Find it "
                    + "in the logs of the workers and in megaton dead list --error damaged_batch, delete "
                    + "\(keys.batch("<b>")), \(keys.results("<b>")) and \(keys.known("<b>")), and submit the missing "
                    + "jobs under another name. To clear this warning, run HDEL \(keys.stat) \(counter) in the control "
                    + "Redis."
        )
    }

    /// A client that waits for such an outcome may wait forever.
    private func droppedReplies() async throws(RedisError) -> Finding {
        let counter = "replies_dropped"
        let dropped = try await control.send(["HGET", .string(keys.stat), .string(counter)]).int ?? 0
        return Finding(
            level: dropped == 0 ? .ok : .warning,
            subject: "replies",
            message: dropped == 0
                ? "none was dropped"
                : "\(dropped) \(dropped == 1 ? "outcome" : "outcomes") did not reach or stay in the list of a client: "
                    + "the list had more than \(JobQueue.replyLimit) entries or too many bytes, was no list, or the "
                    + "coordinator may not write its key (see the log of the coordinator); or Redis had no room. To "
                    + "clear this warning, run HDEL \(keys.stat) \(counter) in the control Redis."
        )
    }

    /// Waiting webhooks are usual for a moment, and dropped ones are lost for their clients.
    private func webhooks(leader: String?) async throws(RedisError) -> Finding {
        let counter = "webhooks_dropped"
        let waiting = try await JobQueue(control, keys: keys).webhookCount()
        let hosts = try await control.send(["ZCARD", .string(keys.webhookHosts)]).int ?? 0
        let dropped = try await control.send(["HGET", .string(keys.stat), .string(counter)]).int ?? 0
        let hasRules = try await control.send(["EXISTS", .string(keys.webhookRules)]).int == 1
        var sentences: [String] = []
        let obstacle = waiting == 0 ? nil : Self.reasonUnsent(leader: leader, hasRules: hasRules)
        if let obstacle {
            sentences.append(
                "\(obstacle). Start megaton coordinator with --webhook-key, with which they are sent; otherwise each is "
                    + "dropped after \(WebhookSchedule().hours) h."
            )
        }
        if dropped > 0 {
            sentences.append(
                "\(dropped) \(dropped == 1 ? "was" : "were") dropped, as their hosts refused them for good (410) or "
                    + "did not accept them in time, no coordinator sent them, or too many waited. The log of the "
                    + "coordinator, or of the worker that led in its place, names job and host of each. To clear this warning, run HDEL \(keys.stat) "
                    + "\(counter) in the control Redis."
            )
        }
        let state =
            waiting == 0
            ? "no outcome waits"
            : "\(waiting) \(waiting == 1 ? "outcome waits" : "outcomes wait") for \(hosts) "
                + "\(hosts == 1 ? "host" : "hosts")"
        return Finding(
            level: sentences.isEmpty ? .ok : .warning,
            subject: "webhooks",
            message: sentences.isEmpty
                ? state : state + (obstacle == nil ? "; " : ", and ") + sentences.joined(separator: " ")
        )
    }

    /// Why no process sends the webhooks that wait; nil if the leader does.
    private static func reasonUnsent(leader: String?, hasRules: Bool) -> String? {
        guard let leader else { return "no coordinator leads" }
        if Leadership.isFallback(leader) { return "a worker leads, which has no key to sign requests with" }
        return hasRules ? nil : "the coordinator has no key to sign requests with"
    }

    /// A queue that was paused for a moment and forgotten looks like one that hangs.
    private func pauses() async throws(RedisError) -> [Finding] {
        let modes = JobQueue.PauseMode.allCases
        let fields = modes.map { RedisArgument.string($0.rawValue) }
        let reply = try await control.send(RedisCommand(["HMGET", .string(keys.control)] + fields))
        let values = reply.array ?? []
        let set = zip(modes, values).filter { $1.string == "1" }.map { $0.0 }
        if set.isEmpty { return [Finding(level: .ok, subject: "pauses", message: "the queue is not paused")] }
        return set.map { mode in
            let effect =
                switch mode {
                case .paused: "paused: no jobs are claimed"
                case .drain: "draining: no jobs are admitted, and pushed jobs wait"
                }
            return Finding(level: .warning, subject: "pauses", message: effect + ". To resume: megaton queue resume.")
        }
    }

    /// Hosts with an open circuit breaker.
    private func openCircuits() async throws(RedisError) -> Finding {
        let open = try await Inspector.hosts(JobQueue(control, keys: keys)).filter(\.isOpen)
        if open.isEmpty { return Finding(level: .ok, subject: "hosts", message: "no circuit breaker is open") }
        let named = open.sorted { $0.name < $1.name }.prefix(Self.shownHosts)
            .map { "\($0.name) (next probe in \(Int($0.openFor.rounded(.up))) s)" }
        let more = open.count > named.count ? " and \(open.count - named.count) more" : ""
        return Finding(
            level: .warning,
            subject: "hosts",
            message:
                "circuit breaker open after consecutive failures: \(named.joined(separator: ", "))\(more). Their jobs "
                + "wait."
        )
    }
}
