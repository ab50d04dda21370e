internal import MegatonRedis

extension Doctor {
    /// Maximum number of batches whose keys are examined: the newest.
    private static let examinedBatches = 1000
    /// Maximum number of keys in the findings.
    private static let namedKeys = 20

    /// Keys with a fixed name, and the type that Redis must report for each; see `QueueKeys`. Counters that nothing
    /// waits for are left out.
    private static func types(of keys: QueueKeys) -> [(key: String, type: String)] {
        let groups: [(type: String, keys: [String])] = [
            ("list", intakes(of: keys) + keys.ready + [keys.suspects, keys.wake, keys.intakeWake, keys.replies]),
            ("set", [keys.stages, keys.cancelled]),
            (
                "zset",
                [
                    keys.intakes, keys.lease, keys.delay, keys.holding, keys.held, keys.dead, keys.crashes,
                    keys.isolating, keys.batches, keys.ended, keys.workers, keys.coordinators, keys.webhookQueue,
                    keys.webhookHosts,
                ]
            ),
            (
                "hash",
                [
                    keys.body, keys.meta, keys.credit, keys.pace, keys.heldBytes, keys.deadInfo, keys.workerInfo,
                    keys.control, keys.rate, keys.stat, keys.webhooks, keys.webhookState,
                ]
            ),
            (
                "string",
                [
                    keys.leader, keys.formerLeader, keys.epoch, keys.round, keys.protocolRange, keys.layout,
                    keys.places, keys.givenUp, keys.presets, keys.sweepGate, keys.webhookRules,
                ]
            ),
        ]
        return groups.flatMap { group in group.keys.map { (key: $0, type: group.type) } }
    }

    private static func intakes(of keys: QueueKeys) -> [String] { Job.Priority.allCases.map(keys.jobs) }

    /// The keys of a batch.
    private static func types(of keys: QueueKeys, batch: String) -> [(key: String, type: String)] {
        [
            (keys.batch(batch), "hash"), (keys.known(batch), "hash"), (keys.results(batch), "list"),
            (keys.jobs(batch: batch), "list"),
        ]
    }

    /// The newest batches; none if their list has another type, which is a finding of its own.
    private func newestBatches() async throws(RedisError) -> [String] {
        do throws(RedisError) {
            let last = RedisArgument.int(Self.examinedBatches - 1)
            return (try await control.send(["ZRANGE", .string(keys.batches), "0", last, "REV"]).array ?? [])
                .compactMap(\.string)
        } catch {
            guard error.isWrongType else { throw error }
            return []
        }
    }

    /// Finds keys that another program has written with a type of its own. The script `stage` passes over such an
    /// intake without an error, and the messages of Redis about others do not name the key.
    func keyTypes() async -> [Finding] {
        let subject = "key types"
        do throws(RedisError) {
            let expected =
                Self.types(of: keys) + (try await newestBatches()).flatMap { Self.types(of: keys, batch: $0) }
            let replies = try await control.pipeline(expected.map { ["TYPE", .string($0.key)] })
            var findings: [Finding] = []
            for ((key, type), reply) in zip(expected, replies) {
                if case .error(let text) = reply { throw RedisError(reply: text) }
                guard let actual = reply.string else { throw JobQueue.unexpected("TYPE") }
                if actual == type || actual == "none" { continue }
                let message = message(about: key, of: actual, mustBe: type)
                findings.append(Finding(level: .error, subject: subject, message: message))
            }
            if findings.isEmpty {
                let examined = "the keys that all jobs share, and those of the newest batches, have theirs"
                return [Finding(level: .ok, subject: subject, message: examined)]
            }
            let others = findings.count - Self.namedKeys
            if others <= 0 { return findings }
            let message = "\(others) more keys are of a wrong type; repair those above, and run the doctor again"
            return findings.prefix(Self.namedKeys) + [Finding(level: .error, subject: subject, message: message)]
        } catch {
            return [Finding(level: .error, subject: subject, message: "\(error)")]
        }
    }

    private func message(about key: String, of actual: String, mustBe type: String) -> String {
        let effect =
            if Self.intakes(of: keys).contains(key) || key.hasPrefix(keys.jobs(batch: "")) {
                "No job is read from it, and none can be pushed to it."
            } else if key.hasPrefix(keys.batch("")) {
                "The batch cannot be shown, and its jobs are not counted."
            } else {
                "Commands that use it fail, so that the queue may stand still."
            }
        return "\(key) is of the type \(actual) and must be of the type \(type): another program has written it. "
            + "\(effect) Rename it if its content is needed (RENAME \(key) \(key).other in the control Redis), or "
            + "delete it (DEL \(key)); then run megaton doctor --repair."
    }
}
