import Foundation
import MegatonCluster
import MegatonTestSupport

/// Files that crash their decoder among good ones, in one run.
struct CrashingFiles: Scenario {
    static let name = "crashing-files"
    static let summary = "24 files that crash the decoder among 640 good ones, two workers: poison, done, exit 2"

    private static let (good, crashing) = (640, 24)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var result = ScenarioResult()
        let image = TestImage.quarters(width: 100, height: 100)
        try FileManager.default.createDirectory(atPath: stage.directory + "/in", withIntermediateDirectories: true)
        let spacing = (Self.good + Self.crashing) / Self.crashing
        for number in 0..<Self.good + Self.crashing {
            let crashes = number % spacing == 3 && number / spacing < Self.crashing
            let url = URL(fileURLWithPath: "\(stage.directory)/in/\(number).png")
            try (crashes ? image + FaultLibrary.crash : image).write(to: url)
        }
        let end = try await CrashRun.run([stage.directory + "/in"], stage)
        result.note(
            "exit \(end.code) after \(Stage.seconds(end.took)); \(end.done) done, \(end.poisoned) poison, \(end.deaths) deaths"
        )
        result.require(end.code == 2, "it ended with \(end.code): \(end.errors.suffix(600))")
        result.require(end.done == Self.good, "\(end.done) done")
        result.require(end.poisoned == Self.crashing, "\(end.poisoned) poison")
        result.require(end.lines == Self.good + Self.crashing, "\(end.lines) lines in the ledger")
        result.require(end.deaths <= 3 * Self.crashing, "\(end.deaths) deaths")
        return result
    }
}

/// Jobs that all name one file that crashes its decoder.
struct OneCrasher: Scenario {
    static let name = "one-crasher"
    static let summary = "50 jobs that name one crashing file, two workers: four deaths at the most"

    private static let jobs = 50

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var result = ScenarioResult()
        let path = stage.directory + "/crasher.png"
        try (TestImage.quarters(width: 100, height: 100) + FaultLibrary.crash).write(to: URL(fileURLWithPath: path))
        let lines = (0..<Self.jobs).map { number in
            #"{"id":"job-\#(number)","source":"file://\#(path)","renditions":[{"width":\#(10 + number)}]}"#
        }
        let list = stage.directory + "/jobs.jsonl"
        try JobList.write(lines, to: list)
        let end = try await CrashRun.run([list], stage)
        result.note("exit \(end.code) after \(Stage.seconds(end.took)); \(end.poisoned) poison, \(end.deaths) deaths")
        result.require(end.code == 2, "it ended with \(end.code): \(end.errors.suffix(600))")
        result.require(end.lines == Self.jobs, "\(end.lines) lines in the ledger")
        result.require(end.poisoned == Self.jobs, "\(end.poisoned) poison")
        result.require(end.deaths <= 4, "\(end.deaths) deaths")
        return result
    }
}

/// A run with two workers whose decoders crash on marked files.
private enum CrashRun {
    struct End {
        let code: Int32
        let took: Duration
        let lines: Int
        let done: Int
        let poisoned: Int
        /// Deaths of workers, and of processes that run suspects.
        let deaths: Int
        let errors: String
    }

    static func run(_ inputs: [String], _ stage: Stage) async throws -> End {
        let ledger = stage.directory + "/ledger.jsonl"
        let start = stage.clock.now
        let process = try ProgramUnderTest(
            program: stage.program,
            arguments: ["run"] + inputs + [
                "--output", stage.directory + "/out", "--workers", "2", "--verbose", "--ledger", ledger,
            ],
            environment: try FaultLibrary.crashingCodec().merging(["XDG_CACHE_HOME": stage.directory + "/cache"]) { $1 }
        )
        let ending = await process.ending()
        let text = try String(contentsOfFile: ledger, encoding: .utf8)
        let outcomes = try text.split(separator: "\n").map {
            try JSONDecoder().decode(JobOutcome.self, from: Data($0.utf8))
        }
        return End(
            code: ending.code,
            took: start.duration(to: stage.clock.now),
            lines: Set(outcomes.map(\.id)).count,
            done: outcomes.count { $0.status == .done },
            poisoned: outcomes.count { $0.error?.code == "poison" },
            deaths: ending.errors.split(separator: "\n").count {
                $0.contains("and is started again") || $0.contains("the isolated process for suspects ended")
            },
            errors: ending.errors
        )
    }
}
