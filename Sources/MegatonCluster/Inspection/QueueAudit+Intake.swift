internal import MegatonRedis

extension QueueAudit {
    /// Maximum number of batches whose intakes are checked, the newest first.
    private static let batchLimit = 10_000
    private static let batchesAtOnce = 500

    /// Finds epochs in `stages` that have nothing staged. The next leader takes over those that have.
    func examineStages(repair: Bool, into report: inout Report) async throws(RedisError) {
        let keys = queue.keys
        let reply = try await queue.redis.send(["SMEMBERS", .string(keys.stages)])
        let epochs = (reply.array ?? []).compactMap(\.int)
        let replies = try await queue.redis.run(
            QueueScripts.auditStage,
            calls: epochs.map { epoch in
                ([keys.epoch, keys.stages, keys.stage(epoch: epoch)], [.int(epoch), repair ? "1" : "0"])
            }
        )
        try count(.emptyStage, epochs.map(String.init), replies, repair: repair, into: &report)
    }

    /// Finds intakes of batches that no coordinator knows of.
    func examineIntakes(repair: Bool, into report: inout Report) async throws(RedisError) {
        for start in stride(from: 0, to: Self.batchLimit, by: Self.batchesAtOnce) {
            let reply = try await queue.redis.send([
                "ZRANGE", .string(queue.keys.batches), .int(start), .int(start + Self.batchesAtOnce - 1), "REV",
            ])
            let batches = (reply.array ?? []).compactMap(\.string)
            try await examineIntakes(of: batches, repair: repair, into: &report)
            if batches.count < Self.batchesAtOnce { return }
        }
    }

    private func examineIntakes(
        of batches: [String],
        repair: Bool,
        into report: inout Report
    ) async throws(RedisError) {
        let keys = queue.keys
        let replies = try await queue.redis.run(
            QueueScripts.auditIntake,
            calls: batches.map { batch in
                (
                    [keys.jobs(batch: batch), keys.batch(batch), keys.intakes, keys.intakeWake],
                    [.string(batch), repair ? "1" : "0"]
                )
            }
        )
        try count(.lostIntake, batches, replies, repair: repair, into: &report)
    }

    private func count(
        _ kind: Kind,
        _ subjects: [String],
        _ replies: [RedisValue],
        repair: Bool,
        into report: inout Report
    ) throws(RedisError) {
        for case .error(let text) in replies { throw RedisError(reply: text) }
        let faults = zip(subjects, replies).filter { $1.int == 1 }.map { Fault(id: $0.0, kind: kind) }
        report.add(faults)
        if repair { report.repaired += faults.count }
    }
}
