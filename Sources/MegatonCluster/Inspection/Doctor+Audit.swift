internal import MegatonRedis

extension Doctor {
    /// Number of faults that are described.
    private static let shownFaults = 3

    /// Checks that each id is in exactly one place.
    func audit(repair: Bool) async -> Finding {
        do {
            let report = try await QueueAudit(queue: JobQueue(control, keys: keys)).run(repair: repair)
            return Self.finding(report, repair: repair)
        } catch {
            return Finding(level: .error, subject: "audit", message: "\(error)")
        }
    }

    private static func finding(_ report: QueueAudit.Report, repair: Bool) -> Finding {
        let rest = report.isComplete ? "" : "; the queue has more, which were not checked"
        let scope = "\(report.examined) \(report.examined == 1 ? "id" : "ids")\(rest)"
        if report.count == 0 {
            return Finding(level: .ok, subject: "audit", message: "no faults in \(scope)")
        }
        let kinds = report.faults.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { "\($0.value) \($0.key.rawValue.replacing("_", with: " "))" }
        let examples = report.examples.prefix(shownFaults).map { "\($0.id): \($0.what)" }
        let end: String
        if !repair {
            end = "Run megaton doctor --repair."
        } else if report.repaired == report.count {
            end = "All were repaired."
        } else {
            let verb = report.repaired == 1 ? "was" : "were"
            end = "\(report.repaired) \(verb) repaired. Run megaton doctor --repair again."
        }
        return Finding(
            level: repair && report.repaired == report.count ? .warning : .error,
            subject: "audit",
            message: "\(report.count) \(report.count == 1 ? "fault" : "faults") (\(kinds.joined(separator: ", "))) in "
                + "\(scope). \(examples.joined(separator: "; ")). \(end)"
        )
    }
}
