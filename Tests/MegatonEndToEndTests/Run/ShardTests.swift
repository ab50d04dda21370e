import Foundation
import MegatonCommandLine
import MegatonRedis
import MegatonTestSupport
import Testing

/// A queue with several shards, through the commands.
@Suite(.timeLimit(.minutes(3))) struct ShardTests {
    private func megaton(_ arguments: [String]) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest.megaton(arguments)).ending()
    }

    private func lines(_ text: String) -> [Substring] { text.split(separator: "\n") }

    /// Pushes a list of sources and waits for its end.
    private func submit(_ list: String, _ directory: TestDirectory, _ options: [String]) async throws {
        let ledger = directory.path + "/ledger.jsonl"
        let submit = try await megaton(
            ["submit", list, "--output", directory.path + "/out", "--batch", "spring", "--wait", "--ledger", ledger]
                + options
        )
        #expect(submit.code == 0, "\(submit.output)\(submit.errors)")
        let lines = lines(try String(contentsOfFile: ledger, encoding: .utf8))
        #expect(lines.count == 40 && Set(lines).count == 40)
    }

    private func sources(_ origin: OriginServer, _ directory: TestDirectory) throws -> String {
        let lines = (0..<40).map { origin.url("/\($0).png").absoluteString }
        return try directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.txt")
    }

    private func withOrigin(_ body: (OriginServer, TestDirectory) async throws -> Void) async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let directory = try TestDirectory()
            defer { directory.remove() }
            try await body(origin, directory)
        }
    }

    /// Fault: the workers of `megaton run` did not find the private Redis if the path of its socket had a space.
    @Test func aSpaceInThePathOfASocketSeparatesNoServers() throws {
        let text = RedisOptions.variable(of: ["unix:///tmp/my files/redis", "redis://10.0.0.2"])
        let urls = text.split(separator: " ").map(String.init)
        #expect(urls.count == 2)
        let first = try RedisConfiguration(url: try #require(urls.first))
        #expect(first == RedisConfiguration(address: .unix(path: "/tmp/my files/redis")))
    }

    @Test(.enabled(if: LongTests.areOn, "takes long; ./scripts/test --all runs it"))
    func theShardsOfAQueueLieOnTheMastersOfARedisCluster() async throws {
        try await withOrigin { (origin, directory) async throws in
            try await RedisClusterProcesses.run { (cluster) async throws in
                let options = ["--redis", cluster.url]
                let reshard = try await megaton(["queue", "reshard", "3"] + options)
                #expect(reshard.code == 0 && reshard.output.contains("3 shards"), "\(reshard.output)\(reshard.errors)")
                #expect(reshard.output.contains("have to start again"), "\(reshard.output)")
                let again = try await megaton(["queue", "reshard", "3"] + options)
                #expect(again.code == 0 && !again.output.contains("have to start again"), "\(again.output)")
                let coordinator = try ProgramUnderTest.megaton(["coordinator"] + options)
                let worker = try ProgramUnderTest.megaton(
                    ["worker", "--allow-private", "--allow-root", directory.path, "--render-threads", "1"] + options
                )
                try await submit(try sources(origin, directory), directory, options)
                let commands = [
                    ["doctor"], ["dead", "list"], ["batch", "show", "spring"], ["queue", "drain", "--wait"],
                    ["queue", "resume"],
                ]
                for arguments in commands {
                    let ending = try await megaton(arguments + options)
                    #expect(ending.code == 0, "\(arguments): \(ending.output)\(ending.errors)")
                }
                let status = try await megaton(["status"] + options)
                #expect(status.code == 0 && status.output.contains("shard 2"), "\(status.output)\(status.errors)")
                let list = try await megaton(["batch", "list"] + options)
                #expect(lines(list.output).count == 1 && list.output.contains("40 done"), "\(list.output)")
                // Those that work notice a change, and their service manager starts them again.
                let more = try await megaton(["queue", "reshard", "4"] + options)
                #expect(more.code == 0 && more.output.contains("had 3"), "\(more.output)\(more.errors)")
                for process in [worker, coordinator] {
                    let ending = await process.ending()
                    #expect(ending.code == 69 && ending.errors.contains("from 3 to 4"), "\(ending.errors)")
                }
            }
        }
    }

    @Test func theShardsOfAQueueLieOnSeveralServers() async throws {
        try await withOrigin { (origin, directory) async throws in
            try await RedisServerProcess.run { (first) async throws in
                try await RedisServerProcess.run { (second) async throws in
                    let options = ["--redis", first.url, "--redis", second.url]
                    let early = try await megaton(["status"] + options)
                    #expect(early.code == 69 && early.errors.contains("megaton queue reshard 2"), "\(early.errors)")
                    let reshard = try await megaton(["queue", "reshard", "2"] + options)
                    #expect(reshard.code == 0, "\(reshard.errors)")
                    let worker = try ProgramUnderTest.megaton(
                        ["worker", "--allow-private", "--allow-root", directory.path, "--render-threads", "1"] + options
                    )
                    try await submit(try sources(origin, directory), directory, options)
                    let other = try await megaton(["status", "--redis", second.url, "--redis", first.url])
                    #expect(other.code == 69 && other.errors.contains("name it first"), "\(other.errors)")
                    worker.send(SIGTERM)
                    #expect(await worker.ending().code == 0, "\(worker.errors)")
                }
            }
        }
    }

    /// Fault: a ledger that was continued had lines of one shard twice.
    @Test func aLedgerOfSeveralShardsIsContinued() async throws {
        try await withOrigin { (origin, directory) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let options = ["--redis", server.url]
                #expect(try await megaton(["queue", "reshard", "3"] + options).code == 0)
                let worker = try ProgramUnderTest.megaton(
                    ["worker", "--allow-private", "--allow-root", directory.path, "--render-threads", "1"] + options
                )
                let list = try sources(origin, directory)
                let submit = try await megaton(
                    ["submit", list, "--output", directory.path + "/out", "--batch", "spring", "--keep-outcomes"]
                        + options
                )
                #expect(submit.code == 0, "\(submit.errors)")
                let wait = try await megaton(["batch", "wait", "spring"] + options)
                #expect(wait.code == 0, "\(wait.errors)")
                let all = lines(try await megaton(["batch", "results", "spring"] + options).output)
                #expect(all.count == 40)
                // A reader that died had written some of them, and acknowledged none.
                let some = all.enumerated().filter { $0.offset % 3 == 0 }.map(\.element).joined(separator: "\n")
                let ledger = try directory.write(Data((some + "\n").utf8), to: "ledger.jsonl")
                for _ in 0..<2 {
                    let results = try await megaton(["batch", "results", "spring", "--ledger", ledger] + options)
                    #expect(results.code == 0, "\(results.errors)")
                    let written = lines(try String(contentsOfFile: ledger, encoding: .utf8))
                    #expect(written.count == 40 && Set(written) == Set(all))
                }
                let from = try await megaton(["batch", "results", "spring", "--from", "7"] + options)
                #expect(from.code == 64 && from.errors.contains("3 shards"), "\(from.errors)")
                // Fault: a batch of which a shard had lost its part looked finished.
                let client = server.client()
                try await client.send(["DEL", "megaton:{default:2}:2:batch:spring"])
                client.close()
                for arguments in [["wait", "spring"], ["results", "spring", "--follow"]] {
                    let ending = try await megaton(["batch"] + arguments + options)
                    #expect(ending.code == 69 && ending.errors.contains("1 of 3 shards"), "\(ending.errors)")
                }
                let shown = try await megaton(["batch", "show", "spring"] + options)
                #expect(shown.output.contains("incomplete"), "\(shown.output)")
                worker.send(SIGTERM)
                #expect(await worker.ending().code == 0, "\(worker.errors)")
            }
        }
    }
}
