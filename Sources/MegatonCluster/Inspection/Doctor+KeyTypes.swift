internal import MegatonRedis

extension Doctor {
    /// Keys with a fixed name, and the type that Redis must report for each; see `QueueKeys`. Counters that nothing
    /// waits for are left out, and so are the keys of each batch.
    private static func types(of keys: QueueKeys) -> [(key: String, type: String)] {
        let groups: [(type: String, keys: [String])] = [
            ("list", intakes(of: keys) + keys.ready + [keys.suspects, keys.wake, keys.intakeWake]),
            ("set", [keys.stages, keys.cancelled]),
            (
                "zset",
                [
                    keys.intakes, keys.lease, keys.delay, keys.holding, keys.held, keys.dead, keys.crashes,
                    keys.isolating, keys.batches, keys.ended, keys.workers, keys.coordinators,
                ]
            ),
            (
                "hash",
                [
                    keys.body, keys.meta, keys.credit, keys.pace, keys.heldBytes, keys.deadInfo, keys.workerInfo,
                    keys.control, keys.rate, keys.stat,
                ]
            ),
            (
                "string",
                [
                    keys.leader, keys.formerLeader, keys.epoch, keys.round, keys.protocolRange, keys.layout,
                    keys.places, keys.givenUp, keys.presets, keys.sweepGate,
                ]
            ),
        ]
        return groups.flatMap { group in group.keys.map { (key: $0, type: group.type) } }
    }

    private static func intakes(of keys: QueueKeys) -> [String] { Job.Priority.allCases.map(keys.jobs) }

    /// Finds keys that another program has written with a type of its own. The script `stage` passes over such an
    /// intake without an error, and the messages of Redis about others do not name the key.
    func keyTypes() async -> [Finding] {
        let subject = "key types"
        let expected = Self.types(of: keys)
        do throws(RedisError) {
            let replies = try await control.pipeline(expected.map { ["TYPE", .string($0.key)] })
            var findings: [Finding] = []
            for ((key, type), reply) in zip(expected, replies) {
                if case .error(let text) = reply { throw RedisError(reply: text) }
                guard let actual = reply.string else { throw JobQueue.unexpected("TYPE") }
                if actual == type || actual == "none" { continue }
                let message = message(about: key, of: actual, mustBe: type)
                findings.append(Finding(level: .error, subject: subject, message: message))
            }
            if !findings.isEmpty { return findings }
            return [Finding(level: .ok, subject: subject, message: "the keys that all jobs share have theirs")]
        } catch {
            return [Finding(level: .error, subject: subject, message: "\(error)")]
        }
    }

    private func message(about key: String, of actual: String, mustBe type: String) -> String {
        let effect =
            Self.intakes(of: keys).contains(key)
            ? "No job is read from it, and none can be pushed to it."
            : "Commands that use it fail, so that the queue may stand still."
        return "\(key) is of the type \(actual) and must be of the type \(type): another program has written it. "
            + "\(effect) Rename it if its content is needed (RENAME \(key) \(key).other in the control Redis), or "
            + "delete it (DEL \(key)); then run megaton doctor --repair."
    }
}
