import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// A full disk: the effect on outputs and on the ledger.
@Suite(.timeLimit(.minutes(3))) struct FullDiskTests {
    private func run(
        _ home: RunTests.Home,
        ledger: String,
        count: Int = 16,
        _ disk: [String: String]
    ) async throws -> ProgramUnderTest.Ending {
        for index in 0..<count {
            let image = TestImage.quarters(width: 32, height: 32, seed: UInt8(index % 16))
            try home.directory.write(image, to: "in/\(index).png")
        }
        let run = try ProgramUnderTest.megaton(
            ["run", "in", "--output", home.output, "--ledger", ledger, "--workers", "1", "--json"],
            environment: home.environment.merging(disk) { $1 },
            directory: home.directory.path
        )
        return await run.ending()
    }

    private func lines(of ledger: String) throws -> [JobOutcome] {
        let text = try String(contentsOfFile: ledger, encoding: .utf8)
        #expect(text.hasSuffix("\n"), "the last line is whole")
        return try text.split(separator: "\n").map { try JSONDecoder().decode(JobOutcome.self, from: Data($0.utf8)) }
    }

    @Test func outputsFailAtTheFirstTryAndSaySo() async throws {
        let home = try RunTests.Home()
        let ledger = home.directory.path + "/ledger.jsonl"
        let ending = try await run(home, ledger: ledger, FaultLibrary.fullDisk(beneath: home.output))
        #expect(ending.code == 2 && ending.errors.contains("disk_full"), "\(ending.errors)")
        let outcomes = try lines(of: ledger)
        #expect(outcomes.count == 16)
        for outcome in outcomes {
            #expect(outcome.attempts == 1 && outcome.error?.code == "disk_full")
            #expect(outcome.error?.message.contains("No space left") == true && outcome.error?.retryable == false)
        }
        #expect(home.outputs.isEmpty)
        let again = try home.megaton(["run", "--retry-failed", ledger, "--workers", "1"])
        #expect(await again.ending().code == 0, "\(again.errors)")
        #expect(home.outputs.count == 16)
    }

    /// Fault: each source of a long list was fetched and rendered for nothing.
    @Test func aDiskThatStaysFullEndsTheRun() async throws {
        let home = try RunTests.Home()
        let ledger = home.directory.path + "/ledger.jsonl"
        let ending = try await run(home, ledger: ledger, count: 1000, FaultLibrary.fullDisk(beneath: home.output))
        #expect(ending.code == 74, "\(ending.errors)")
        #expect(ending.errors.contains("jobs in a row failed because a disk is full"), "\(ending.errors)")
        #expect(ending.errors.contains("No space left"), "\(ending.errors)")
        let count = try lines(of: ledger).count
        #expect((100..<1000).contains(count), "\(count) lines")
    }

    @Test func aLedgerEndsWithAWholeLine() async throws {
        let home = try RunTests.Home()
        let folder = home.directory.path + "/ledger"
        let disk = try FaultLibrary.fullDisk(beneath: folder, room: 3000)
        let ending = try await run(home, ledger: folder + "/ledger.jsonl", disk)
        #expect(ending.code == 74, "\(ending.errors)")
        let words = "No space left on device. It ends with its last whole line."
        #expect(ending.errors.contains(words), "\(ending.errors)")
        let count = try lines(of: folder + "/ledger.jsonl").count
        #expect((1..<16).contains(count), "\(count) lines")
    }

    /// A full disk ends the run behind a whole sample, and the same command again loses and repeats nothing.
    @Test func shardsAreContinuedWhenThereIsRoom() async throws {
        let home = try RunTests.Home()
        for index in 0..<16 {
            let image = TestImage.quarters(width: 32, height: 32, seed: UInt8(index))
            try home.directory.write(image, to: "in/\(index).png")
        }
        let ledger = home.directory.path + "/ledger.jsonl"
        let run = ["run", "in", "-o", "tar:\(home.output)", "--ledger", ledger, "-j", "1", "--shard-count", "5"]
        let full = try ProgramUnderTest.megaton(
            run,
            environment: home.environment.merging(try FaultLibrary.fullDisk(beneath: home.output, room: 20_000)) { $1 },
            directory: home.directory.path
        )
        let ending = await full.ending()
        #expect(ending.code == 74 && ending.errors.contains("No space left on device. Make room"), "\(ending.errors)")
        let again = await (try home.megaton(run)).ending()
        #expect(again.code == 0, "\(again.errors)")
        let done = try lines(of: ledger).filter { $0.status == .done }.compactMap(\.id)
        #expect(done.count == 16 && Set(done).count == 16)
        #expect(home.outputs.filter { $0.hasSuffix(".tar") }.count == 4, "\(home.outputs)")
    }

    /// Fault: a worker whose disk was full failed half of a batch for good, as its jobs end soonest.
    @Test func jobsOfAWorkerWithAFullDiskWaitForOneWithRoom() async throws {
        let home = try RunTests.Home()
        let count = 12
        for index in 0..<count {
            let image = TestImage.quarters(width: 32, height: 32, seed: UInt8(index))
            try home.directory.write(image, to: "in/\(index).png")
        }
        try await RedisServerProcess.run { (server) async throws in
            let redis = ["--redis", server.url]
            let coordinator = try ProgramUnderTest.megaton(["coordinator"] + redis)
            let worker = ["worker", "--allow-root", home.directory.path, "--lease", "3", "--concurrency", "4"] + redis
            let full = try ProgramUnderTest.megaton(
                worker,
                environment: home.environment.merging(try FaultLibrary.fullDisk(beneath: home.output)) { $1 }
            )
            let submit = try ProgramUnderTest.megaton(
                ["submit", "in", "--output", home.output, "--wait", "--json"] + redis,
                environment: home.environment,
                directory: home.directory.path
            )
            let info = "megaton:{default}:2:workerinfo"
            try await server.wait(forChangesOf: [info]) { client in
                let infos = try await client.send(["HVALS", .string(info)]).array ?? []
                return infos.contains { $0.string?.contains("No space left") == true }
            }
            let status = await (try ProgramUnderTest.megaton(["status"] + redis)).ending()
            #expect(status.output.contains("claims few jobs or none: \(home.output)"), "\(status.output)")
            let doctor = await (try ProgramUnderTest.megaton(["doctor"] + redis)).ending()
            #expect(doctor.output.contains("claims few jobs or none: "), "\(doctor.output)")
            let other = try ProgramUnderTest.megaton(worker, environment: home.environment)
            let ending = await submit.ending()
            #expect(ending.code == 0, "\(ending.errors)")
            #expect(home.outputs.count == count)
            #expect(full.errors.contains("this worker claims no jobs for 10 s"), "\(full.errors)")
            for process in [full, other, coordinator] {
                process.send(SIGTERM)
                #expect(await process.ending().code == 0, "\(process.errors)")
            }
        }
    }
}
