internal import MegatonRedis

extension Doctor {
    /// Maximum number of keys in the findings.
    private static let namedKeys = 20

    /// Finds keys that another program has written with a type of its own. The script `stage` passes over such an
    /// intake without an error, and the messages of Redis about others do not name the key.
    func keyTypes() async -> [Finding] {
        let subject = "key types"
        do throws(RedisError) {
            let damaged = try await KeyTypes(JobQueue(control, keys: keys)).damaged()
            let findings: [Finding] = damaged.map { damage in
                Finding(level: .error, subject: subject, message: self.message(about: damage))
            }
            if findings.isEmpty {
                let examined = "the keys that all jobs share, and those of the newest batches, have theirs"
                return [Finding(level: .ok, subject: subject, message: examined)]
            }
            let others = findings.count - Self.namedKeys
            if others <= 0 { return findings }
            let rest = "\(others) more keys are of a wrong type; repair those above, and run the doctor again"
            return findings.prefix(Self.namedKeys) + [Finding(level: .error, subject: subject, message: rest)]
        } catch {
            return [Finding(level: .error, subject: subject, message: "\(error)")]
        }
    }

    private func message(about damage: KeyTypes.Damage) -> String {
        let key = damage.key
        let effect =
            if Job.Priority.allCases.map(keys.jobs).contains(key) || key.hasPrefix(keys.jobs(batch: "")) {
                "No job is read from it, and none can be pushed to it."
            } else if key.hasPrefix(keys.batch("")) {
                "The batch cannot be shown, and its jobs are not counted."
            } else {
                "Commands that use it fail, so that the queue may stand still."
            }
        return "\(damage). \(effect) Rename it if its content is needed (RENAME \(key) \(key).other in the control "
            + "Redis), or delete it (DEL \(key)); then run megaton doctor --repair."
    }
}
