import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// Messages about batches that a command does not follow to their end.
enum BatchFailure {
    /// EX_TEMPFAIL of sysexits(3).
    static let stoppedWaitingCode: Int32 = 75

    /// The time of `--timeout` is over, and the batch continues without the command.
    ///
    /// - Parameter obstacle: why no job starts, from ``QueueObstacle``; nil if jobs start.
    static func stoppedWaiting(
        _ batch: String,
        seconds: Double,
        ended: Int,
        submitted: Int,
        isComplete: Bool,
        obstacle: String?,
        repetition: RepeatAdvice = RepeatAdvice()
    ) -> CLIError {
        let count =
            "\(ended) of \(Counted.jobs(submitted)) \(submitted == 1 ? "has" : "have") ended after "
            + "\(seconds.formatted()) s"
        let wait = obstacle.map { "wait: \($0)" } ?? "continue"
        let message =
            isComplete
            ? "\(count); the others \(wait). megaton batch wait \(batch) waits for them, megaton batch results "
                + "\(batch) --follow --ledger FILE writes a ledger, megaton batch cancel \(batch) ends them."
            : "\(count), and not all were submitted; the submitted ones \(wait). megaton batch cancel \(batch) ends "
                + "them, and \(repetition.command()) submits all."
        return CLIError(code: stoppedWaitingCode, message: message)
    }

    /// An error ended the command before the batch ended.
    ///
    /// - Parameter repetition: nil if the error itself says what to do.
    static func progress(_ ended: Int, of submitted: Int, _ repetition: RepeatAdvice?) -> String {
        "\(ended) of \(Counted.jobs(submitted)) had ended."
            + (repetition.map { " " + RepeatAdvice.sentence($0.clause) } ?? "")
    }

    /// A signal ended the submission.
    ///
    /// - Parameters:
    ///   - wasTried: whether jobs may have been pushed.
    ///   - isCancelled: whether the batch is known to be cancelled.
    static func interrupted(
        _ batch: String,
        _ repetition: RepeatAdvice = RepeatAdvice(),
        wasTried: Bool,
        isCancelled: Bool
    ) -> CLIError {
        let rest =
            if !wasTried {
                "none was submitted."
            } else if isCancelled {
                "the submitted jobs were cancelled."
            } else {
                "megaton batch cancel \(batch) ends the jobs that were submitted."
            }
        return CLIError(
            code: 130,
            message: "interrupted before all jobs of the batch \(batch) were submitted; \(rest) "
                + RepeatAdvice.sentence("\(repetition.command(exists: wasTried)) submits all")
        )
    }

    /// A control Redis had no room for the next jobs for a minute.
    ///
    /// - Parameters:
    ///   - controls: those of the queue's shards.
    ///   - submitted: number of jobs that Redis has acknowledged.
    ///   - isCancelled: whether these were cancelled.
    static func isFull(
        _ error: RedisError,
        _ controls: [RedisConfiguration],
        _ batch: String,
        submitted: Int,
        isCancelled: Bool
    ) -> CLIError {
        let rest =
            if submitted == 0 {
                "No job of it was submitted"
            } else if isCancelled {
                "\(Counted.jobs(submitted)) of it had been submitted, and those that waited were cancelled"
            } else {
                "\(Counted.jobs(submitted)) of it had been submitted; megaton batch cancel \(batch) cancels them"
            }
        let names = Set(controls.map(\.description)).sorted()
        return .unavailable(
            "\(names.count == 1 ? "" : "one of ")the control Redis \(names.joined(separator: ", ")) has no memory left "
                + "for the batch \(batch). \(error.message) \(rest). Raise its maxmemory, start workers if none is "
                + "running, or submit the jobs in smaller batches."
        )
    }
}

/// Advice to give the same command again, after a batch that was not done whole.
struct RepeatAdvice: Sendable, Equatable {
    /// Whether the user has named the batch: no second batch can have its name.
    var isNamed = false
    /// Whether `--force` was given, with which finished work is done again too.
    var makesAll = false

    /// The subject of a clause.
    ///
    /// - Parameter exists: whether Redis may have the batch.
    func command(exists: Bool = true) -> String {
        isNamed && exists ? "the same command under another --batch" : "the same command again"
    }

    /// A clause about jobs that have not ended.
    var clause: String {
        "\(command()) makes \(makesAll ? "all of them again, because of --force" : "the missing ones")"
    }

    /// A clause as a sentence.
    static func sentence(_ clause: String) -> String { "\(clause.prefix(1).uppercased())\(clause.dropFirst())." }
}

extension BatchOptions {
    var repetition: RepeatAdvice { RepeatAdvice(isNamed: isBatchNamed, makesAll: force) }
}
