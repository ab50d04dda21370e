import MegatonRedis
import Testing

@testable import MegatonCLI
@testable import MegatonCommandLine

/// Messages about batches that a command does not follow to their end.
@Suite struct BatchFailureTests {
    /// Fault: a full Redis was reported without its URL, the batch, the cancelled jobs and a remedy.
    @Test(arguments: [(true, "those that waited were cancelled"), (false, "megaton batch cancel spring cancels them")])
    func aFullRedisIsReportedWithTheBatchAndTheRemedy(_ isCancelled: Bool, _ rest: String) throws {
        let error = RedisError(reply: "OOM command not allowed when used memory > 'maxmemory'.")
        let control = try RedisConfiguration(url: "redis://:hush@127.0.0.1:6479")
        let failure = BatchFailure.isFull(error, [control], "spring", submitted: 4000, isCancelled: isCancelled)
        #expect(failure.code == 69)
        for part in ["redis://127.0.0.1:6479", "batch spring", "4000 jobs", rest, "Raise its maxmemory"] {
            #expect(failure.message.contains(part), "\(failure.message)")
        }
        #expect(!failure.message.contains("hush"))
    }

    /// Fault: the message named the Redis of shard 0 when that of another shard was full.
    @Test func allServersAreNamedIfOneOfThemIsFull() throws {
        let error = RedisError(reply: "OOM command not allowed when used memory > 'maxmemory'.")
        let controls = try ["redis://:hush@10.0.0.1", "redis://:hush@10.0.0.2", "redis://:hush@10.0.0.1"].map {
            try RedisConfiguration(url: $0)
        }
        let failure = BatchFailure.isFull(error, controls, "spring", submitted: 1, isCancelled: true)
        #expect(failure.message.hasPrefix("one of the control Redis redis://10.0.0.1"), "\(failure.message)")
        #expect(failure.message.contains("10.0.0.2") && !failure.message.contains("hush"), "\(failure.message)")
    }

    /// Fault: an error that ended a run, such as a full disk, came without a count and a remedy.
    @Test func anErrorIsReportedWithTheJobsThatHaveEnded() {
        let text = BatchFailure.progress(3, of: 16, RepeatAdvice())
        #expect(text == "3 of 16 jobs had ended. The same command again makes the missing ones.")
        #expect(BatchFailure.progress(1, of: 1, nil) == "1 of 1 job had ended.")
    }

    /// The words of our scripts are no message for people.
    @Test(arguments: [
        ("BATCHEXISTS a batch of this name has been submitted before", Int32(64), "choose another --batch"),
        ("BATCHCLOSED the batch was closed", 69, "with another --batch"),
        ("OTHERREADER outcomes of this batch were read by another reader", 69, "a new file as --ledger"),
    ])
    func anErrorOfAScriptIsReportedWithItsRemedy(_ reply: String, _ code: Int32, _ remedy: String) {
        let failure = CLIError(RedisError(reply: reply))
        #expect(failure.code == code && failure.message.contains(remedy), "\(failure.message)")
        #expect(!failure.message.contains("Redis answered"), "\(failure.message)")
    }

    /// Fault: a Redis that was full from the start was reported with 0 jobs that had been submitted and cancelled.
    @Test(arguments: [true, false]) func aBatchWithoutAJobIsReportedAsSuch(_ isCancelled: Bool) throws {
        let error = RedisError(reply: "OOM command not allowed when used memory > 'maxmemory'.")
        let control = try RedisConfiguration(url: "redis://127.0.0.1:6479")
        let full = BatchFailure.isFull(error, [control], "spring", submitted: 0, isCancelled: isCancelled)
        #expect(full.message.contains(" No job of it was submitted. Raise"), "\(full.message)")
        let failure = BatchFailure.interrupted("spring", wasTried: false, isCancelled: isCancelled)
        #expect(failure.code == 130 && failure.message.contains("; none was submitted. The same"), "\(failure.message)")
    }

    @Test func anInterruptedSubmissionSaysWhatWasCancelled() {
        let cancelled = BatchFailure.interrupted("b", wasTried: true, isCancelled: true).message
        #expect(cancelled.contains("; the submitted jobs were cancelled. The same command"), "\(cancelled)")
        let other = BatchFailure.interrupted("b", wasTried: true, isCancelled: false).message
        #expect(other.contains("; megaton batch cancel b ends the jobs that were submitted. The same"), "\(other)")
    }

    /// Fault: the same command again was advised although a batch of its name existed, or it would make all again.
    @Test func theAdviceHeedsTheNameOfTheBatchAndForce() {
        let named = RepeatAdvice(isNamed: true)
        #expect(BatchFailure.progress(3, of: 16, named).hasSuffix("under another --batch makes the missing ones."))
        let forced = BatchFailure.progress(3, of: 16, RepeatAdvice(makesAll: true))
        #expect(forced.hasSuffix(" The same command again makes all of them again, because of --force."), "\(forced)")
        for (wasTried, rest) in [(true, "under another --batch submits all."), (false, "again submits all.")] {
            let failure = BatchFailure.interrupted("b", named, wasTried: wasTried, isCancelled: true)
            #expect(failure.message.hasSuffix(" The same command \(rest)"), "\(failure.message)")
        }
    }

    @Test func aPausedBatchIsNotSaidToContinue() {
        let pause = "the queue is paused; megaton queue resume starts them"
        for isComplete in [true, false] {
            let failure = BatchFailure.stoppedWaiting(
                "b",
                seconds: 2,
                ended: 0,
                submitted: 20,
                isComplete: isComplete,
                obstacle: pause
            )
            #expect(failure.code == 75 && failure.message.hasPrefix("0 of 20 jobs have ended after 2 s"))
            #expect(failure.message.contains("wait: \(pause)") && !failure.message.contains("continue"))
        }
    }
}
