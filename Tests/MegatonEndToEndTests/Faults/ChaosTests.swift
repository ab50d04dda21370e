import Foundation
import MegatonChaos
import MegatonTestSupport
import Testing

/// A short run of scripts/chaos with a fixed seed; longer ones run at night.
@Suite(.timeLimit(.minutes(5))) struct ChaosTests {
    @Test func nothingIsLostOrDoneTwiceInAShortRun() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        // Other tests run beside it, so that no rate is judged.
        let run = ChaosRun(
            .init(
                seed: 3,
                duration: .seconds(25),
                program: program,
                directory: directory.path,
                judgesPace: false
            )
        )
        let report = try await run.run()
        print(report.lines.joined(separator: "\n"))
        #expect(report.violations.isEmpty, "\(report.violations.joined(separator: "\n"))")
    }

    /// The shortest scenario of `scripts/chaos pace`; the others are run by hand.
    @Test func theSurvivorsOfAKilledWorkerKeepTheirPace() async throws {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        let process = try ProgramUnderTest(
            program: "/usr/bin/python3",
            arguments: ["-B", "-m", "megaton_pace", "pace", "--program", program, "--only", "smoke"],
            environment: ["PYTHONPATH": Repository.root + "/Tests/Pace"]
        )
        let ending = await process.ending()
        print(ending.output)
        #expect(ending.code == 0, "\(ending.output)\(ending.errors)")
    }
}
