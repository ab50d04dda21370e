import Foundation
import MegatonCluster
import MegatonCommandLine

extension BatchRun.Result {
    /// Sentences about jobs that the summary does not explain: damaged images that are done, jobs without an end, and
    /// inputs that were not read.
    func remarks(_ repetition: RepeatAdvice) -> [String] {
        var remarks: [String] = []
        if damaged > 0 {
            let line = summary.ledger == nil ? "" : "; the ledger has the damage in \"notes\""
            remarks.append(
                "\(Counted.jobs(damaged)) \(damaged == 1 ? "has" : "have") a damaged image, which was rendered as far "
                    + "as possible\(line). With --fail-on warning such jobs fail."
            )
        }
        if openJobs > 0 {
            let line = summary.ledger == nil ? "" : " and \(openJobs == 1 ? "has" : "have") no line in the ledger"
            remarks.append(
                "\(Counted.jobs(openJobs)) did not end\(line); \(repetition.clause)."
            )
        }
        if !isReadWhole && summary.jobs > 0 {
            remarks.append(
                "the inputs were not read to their end: \(Counted.jobs(summary.jobs)) had been submitted."
            )
        }
        return remarks
    }
}

extension BatchOptions {
    /// Why a batch has no job.
    var nothingToDo: String {
        let reasons =
            (hasInputs ? ["no image was found in the inputs"] : [])
            + (retryFailed == nil ? [] : ["the ledger has no failed job"])
        return "there was nothing to do: \(reasons.joined(separator: ", and "))."
    }
}

/// Remarks about a ledger.
enum LedgerRemark {
    /// Cancelled jobs that have no outcome, because they had not been admitted.
    static func unwritten(_ count: Int, _ repetition: RepeatAdvice) -> String {
        "\(count) of the cancelled jobs had not been admitted yet and \(count == 1 ? "has" : "have") no line in the "
            + "ledger; \(repetition.clause)."
    }

    /// Jobs that end without an outcome here, because only workers end ready jobs.
    ///
    /// - Parameter obstacle: why no worker ends them.
    static func abandoned(_ queued: Int, _ obstacle: String, hasFile: Bool) -> String {
        let (were, are) = queued == 1 ? ("was", "is") : ("were", "are")
        let unwritten = hasFile ? " and \(are) not in the ledger" : ""
        return "\(obstacle); \(Counted.of(queued, "queued job")) \(were) cancelled\(unwritten)"
    }

    /// Outputs of the last run that this one does not make, and has not deleted.
    static func forgotten(_ count: Int) -> String {
        let (files, them) = count == 1 ? ("its file stays", "it") : ("their files stay", "them")
        return "the last run made \(Counted.of(count, "output")) that this one does not make: \(files), and no later "
            + "run knows \(them). Given to this run, --delete-orphans would have deleted \(them); megaton plan shows "
            + "such files before a run."
    }

    /// - Parameter hasJobs: whether the run had a job. Without one, an earlier run's ledger stays as it is.
    /// - Returns: nil if there is no file, or if it is a stream.
    static func text(_ path: String?, hasJobs: Bool) -> String? {
        guard let path, LedgerPath.descriptor(of: path) == nil else { return nil }
        if hasJobs { return "the ledger is \(path)" }
        let size = (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? Int ?? 0
        return size > 0 ? "the ledger of an earlier run was not changed: \(path)" : nil
    }
}
