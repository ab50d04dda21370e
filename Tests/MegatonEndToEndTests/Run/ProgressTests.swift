import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCommandLine

/// The progress line of a run, on terminals of any width.
@Suite(.timeLimit(.minutes(3))) struct ProgressTests {
    /// The progress lines, each of which replaced the one before.
    private static func lines(_ text: String) -> [String] {
        text.components(separatedBy: "\r\u{1B}[2K").dropFirst().map { $0.components(separatedBy: "\r\n")[0] }
    }

    @Test func theLineFitsTheWindowAlsoAfterItWasResized() async throws {
        let home = try RunTests.Home()
        let terminal = try PseudoTerminal(columns: 61)
        let image = TestImage.quarters(width: 32, height: 32)
        let code = try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            origin.hold()
            let urls = (0..<3).map { origin.url("/\($0).png").absoluteString }
            let run = try Self.run(urls, home, terminal)
            Self.resize(terminal)
            origin.release()
            return await run.ending().code
        }
        terminal.read(until: { $0.contains("the ledger is") })
        #expect(code == 0, "\(terminal.text)")
        #expect(terminal.text.contains("\r\u{1B}[2Kmegaton: 3 of 3 done"), "the summary has a line of its own")
    }

    private static func run(_ urls: [String], _ home: RunTests.Home, _ terminal: PseudoTerminal) throws
        -> ProgramUnderTest
    {
        try start(["run", "-o", home.output, "-j", "1", "--allow-private"] + urls, home, terminal)
    }

    private static func start(
        _ arguments: [String],
        _ home: RunTests.Home,
        _ terminal: PseudoTerminal
    ) throws -> ProgramUnderTest {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        let start = ["-c", #"t=$1; shift; exec "$@" 2> "$t""#, "sh", terminal.path, program]
        return try ProgramUnderTest(
            program: "/bin/sh",
            arguments: start + arguments,
            environment: home.environment.merging(["TERM": "xterm"]) { $1 }
        )
    }

    /// Fault: a plan of half a million rows showed nothing for a minute.
    @Test func aPlanShowsItsProgress() async throws {
        let home = try RunTests.Home()
        let terminal = try PseudoTerminal(columns: 40)
        let urls = (0..<3).map { "https://h.example/\($0).png" }
        let plan = try Self.start(["plan", "-o", home.output, "--json"] + urls, home, terminal)
        let ending = await plan.ending()
        #expect(ending.code == 0 && ending.output.contains("\"jobs\""), "\(ending.output)")
        let text = terminal.read(until: { $0.contains("3 jobs compared") && $0.hasSuffix("\u{1B}[2K") })
        #expect(Self.lines(text).contains { $0.hasPrefix("3 jobs compared, ") }, "\(text)")
        #expect(Self.lines(text).last?.isEmpty == true, "the line is cleared: \(text)")
    }

    @Test func theRateOfAReadingHasNoFraction() {
        #expect(ReadProgress(count: 1234, step: "jobs compared").text(seconds: 2) == "1234 jobs compared, 617 a second")
        #expect(ReadProgress(count: 0, step: "jobs compared").text(seconds: 0) == "0 jobs compared, 0 a second")
    }

    /// Makes the window narrower while the line is shown.
    private static func resize(_ terminal: PseudoTerminal) {
        let wide = terminal.read(until: { $0.contains("of 3") })
        #expect(lines(wide).allSatisfy { $0.count <= 60 } && wide.contains("["), "\(wide)")
        for columns in [24, 9] {
            terminal.resize(columns: UInt16(columns))
            let text = terminal.read(until: { lines($0).contains { $0.hasPrefix("0 of 3") && $0.count < columns } })
            #expect(lines(text).contains { $0.hasPrefix("0 of 3") && $0.count < columns }, "\(text)")
        }
    }

    @Test func narrowLinesLoseTheBarFirst() {
        var progress = BatchProgress(ended: 1234, submitted: 5678, failed: 9, isComplete: true, seconds: 10)
        progress.waiting = "3 wait for 画像.example, next in 8 s"
        for columns in 0...200 {
            let line = progress.line(columns: columns)
            #expect(TextColumns.count(line) <= max(0, columns - 1), "\(columns): \(line)")
            if columns > 20 { #expect(line.contains("1234 of 5678")) }
        }
        #expect(progress.line(columns: 200).hasPrefix("[#####..."))
        #expect(progress.line(columns: 30).hasSuffix("…"))
        progress.onlyWaits = true
        #expect(!progress.text().contains("left"))
    }

    @Test func columnsOfTexts() {
        let texts = [
            ("abc", 3), ("画像", 4), ("e\u{301}", 1), ("👍", 2), ("한글", 4), ("ｆ", 2), ("", 0), ("שלום", 4),
        ]
        for (text, count) in texts { #expect(TextColumns.count(text) == count, "\(text)") }
        #expect(TextColumns.fitted("画像画像", 6) == "画像…")
        #expect(TextColumns.oneLine("a\nb\u{202E}c\t") == "a\\nb\\u{202E}c\\t")
    }

    @Test func aFewJobsWaitAndTheRestGoesOn() {
        #expect(BatchProgress(ended: 1, submitted: 2, isComplete: true, seconds: 1).text().hasSuffix("1 s left"))
        #expect(BatchProgress(ended: 1, submitted: 2, seconds: 1).text() == "1 of 2+, 1.0 a second")
    }

    @Test(arguments: [(1, "1 fetch"), (0, "0 fetches"), (2, "2 fetches")])
    func numbersHaveTheirNouns(_ count: Int, _ text: String) {
        #expect(Counted.fetches(count) == text)
        #expect(Counted.lines(1, "more") == "1 more line" && Counted.jobs(3) == "3 jobs")
    }

    /// Fault: jobs that had to wait for their first attempt were said to wait for another one.
    @Test func noAttemptIsAscribedToJobsThatWait() {
        let delayed = JobQueue.Delayed(count: 2, next: 90)
        let all = WaitingJobs(delayed).text(of: 2)
        #expect(all.text == "2 wait, next in 1 min 30 s" && all.isAll)
        let some = WaitingJobs(delayed, host: JobQueue.AwaitedHost(host: "h:81", seconds: 3)).text(of: 5)
        #expect(some.text == "waiting for h:81, next in 3 s" && !some.isAll)
        #expect(WaitingJobs().text(of: 5).text == nil)
    }

    /// Fault: the progress never showed a waiting job, and nothing said why.
    @Test func anErrorThatHidesWaitingJobsIsReportedOnce() throws {
        var jobs = WaitingJobs()
        // The reader of outcomes reports this one.
        let absent = jobs.remark(on: RedisError(.unreachable, "No server answers."))
        #expect(absent == nil)
        let refused = RedisError(reply: "NOPERM this user has no permissions to run the 'zrange' command")
        let first = jobs.remark(on: refused)
        let remark = try #require(first)
        #expect(remark.contains("NOPERM") && remark.contains("docs/credentials.md"), "\(remark)")
        let second = jobs.remark(on: refused)
        #expect(second == nil)
    }
}
