import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCluster
@testable import MegatonCommandLine

/// Remarks about jobs and ledgers that the summary of a batch does not explain.
@Suite(.timeLimit(.minutes(2))) struct BatchRemarksTests {
    private func result(
        _ fields: [String: String],
        _ tally: BatchTally = BatchTally(),
        isReadWhole: Bool = true,
        wasInterrupted: Bool = true,
        leftOut: LeftOutInputs = LeftOutInputs()
    ) -> BatchRun.Result {
        let summary = RunSummary(
            batch: "b",
            counters: BatchCounters(fields),
            tally: tally,
            seconds: 2,
            ledger: "/l.jsonl"
        )
        return BatchRun.Result(
            summary: summary,
            errors: "",
            leftOut: leftOut,
            notRetried: RetryLedger.NotRetried(),
            hasOtherSamples: false,
            wasInterrupted: wasInterrupted,
            ranOutOfTime: false,
            openJobs: summary.open,
            isReadWhole: isReadWhole
        )
    }

    /// Fault: after a second Ctrl-C the jobs without an end were in no count.
    @Test func jobsWithoutAnEndAreCounted() {
        let interrupted = result(["submitted": "60"])
        #expect(
            interrupted.summary.line.hasPrefix("0 of 60 done in 2.0 s; 60 not ended;"),
            "\(interrupted.summary.line)"
        )
        let remark =
            "60 jobs did not end and have no line in the ledger; the same command again makes the missing ones."
        #expect(interrupted.remarks(RepeatAdvice()) == [remark])
        let named = interrupted.remarks(RepeatAdvice(isNamed: true))
        #expect(named == [remark.replacingOccurrences(of: "command again", with: "command under another --batch")])
        let whole = result(["submitted": "60", "done": "50", "failed": "3", "cancelled": "5", "deduplicated": "2"])
        #expect(whole.remarks(RepeatAdvice()).isEmpty && !whole.summary.line.contains("not ended"))
    }

    @Test func damagedImagesThatAreDoneAreCounted() {
        var tally = BatchTally()
        let lines = [
            #"{"status":"done","source":"a","notes":["the image is damaged, and rendered as far as it goes: cut"]}"#,
            #"{"status":"done","source":"b","notes":["the color profile was left out"]}"#,
            #"{"status":"done","source":"c"}"#,
            #"{"status":"failed","source":"d","notes":["the image is damaged, and rendered as far as it goes: cut"]}"#,
        ]
        for line in lines { tally.add(OutcomeFields(Data(line.utf8))) }
        #expect(tally.damaged == 1)
        var whole = result(["submitted": "3", "done": "3"], wasInterrupted: false)
        whole.damaged = tally.damaged
        #expect(
            whole.remarks(RepeatAdvice()) == [
                "1 job has a damaged image, which was rendered as far as possible; the ledger has the damage in "
                    + "\"notes\". With --fail-on warning such jobs fail."
            ]
        )
        #expect(whole.code == 0)
    }

    /// Fault: a job whose key a failed one had was a success.
    @Test func aDuplicateOfAFailedJobIsNoSuccess() throws {
        func line(_ code: String) -> Data {
            let error = #"{"code":"\#(code)","message":"why","retryable":false}"#
            return Data(#"{"status":"deduplicated","source":"a","error":\#(error)}"#.utf8)
        }
        var tally = BatchTally()
        for code in ["duplicate", "duplicate_id", "duplicate_key"] { tally.add(OutcomeFields(line(code))) }
        tally.add(OutcomeFields(Data(#"{"status":"deduplicated","source":"a"}"#.utf8)))
        #expect(result(["submitted": "4", "deduplicated": "4"], tally, wasInterrupted: false).code == 0)
        tally.add(OutcomeFields(line("not_found")))
        let ending = result(["submitted": "5", "deduplicated": "5"], tally, wasInterrupted: false)
        #expect(ending.code == 2 && ending.summary.failedDuplicates == 1)
        #expect(ending.summary.line.contains("5 duplicates; 1 of a job that has failed;"), "\(ending.summary.line)")
        #expect(tally.table.contains("not_found"))
    }

    /// Fault: the exit code was 0 although the images of a directory were missing.
    @Test func aDirectoryThatCannotBeReadIsNoSuccess() {
        let left = LeftOutInputs(unreadable: 1)
        #expect(result(["submitted": "2", "done": "2"], wasInterrupted: false, leftOut: left).code == 2)
    }

    /// Fault: the exit code was 0 although jobs had not ended.
    @Test func jobsWithoutAnEndAreNoSuccess() {
        #expect(result(["submitted": "60", "done": "59"], wasInterrupted: false).code == 69)
        #expect(result(["submitted": "60", "done": "60"], wasInterrupted: false).code == 0)
        #expect(result(["submitted": "60", "done": "50", "failed": "9"], wasInterrupted: false).code == 2)
        #expect(result(["submitted": "60", "done": "59"]).code == 130)
    }

    /// Fault: a signal while the last outcomes were read left lines and samples out, and the exit code was 0.
    @Test func outcomesThatWereNotReadAreAnInterruption() {
        var progress = BatchRun.Progress()
        (progress.submitted, progress.isComplete) = (60, true)
        let ended = BatchCounters(["submitted": "60", "done": "58", "deduplicated": "2"])
        #expect(BatchRun.isWhole(progress, ended, read: 60) && !BatchRun.isWhole(progress, ended, read: 59))
        #expect(BatchRun.isWhole(progress, ended, read: nil), "without a ledger, the counters have the results")
        let cancelled = BatchCounters(["submitted": "60", "done": "59", "cancelled": "1"])
        #expect(!BatchRun.isWhole(progress, cancelled, read: 60))
        progress.isComplete = false
        #expect(!BatchRun.isWhole(progress, ended, read: 60))
    }

    /// Fault: an interrupted run of a long list showed the number of jobs read so far as the number of all.
    @Test func inputsThatWereNotReadAreMentioned() {
        let counters = ["submitted": "32500", "done": "12917", "cancelled": "19583"]
        let remarks = result(counters, isReadWhole: false).remarks(RepeatAdvice())
        #expect(remarks == ["the inputs were not read to their end: 32500 jobs had been submitted."])
    }

    /// Fault: a run without a job named the ledger of an earlier run as its own.
    @Test func theLedgerOfAnEarlierRunIsNotThisRuns() throws {
        let directory = try TestDirectory()
        let ledger = try directory.write(Data("{}\n".utf8), to: "ledger.jsonl")
        #expect(LedgerRemark.text(ledger, hasJobs: true) == "the ledger is \(ledger)")
        #expect(LedgerRemark.text(ledger, hasJobs: false) == "the ledger of an earlier run was not changed: \(ledger)")
        #expect(LedgerRemark.text("\(directory.path)/none", hasJobs: false) == nil)
        #expect(LedgerRemark.text("-", hasJobs: true) == nil && LedgerRemark.text(nil, hasJobs: true) == nil)
    }
}
