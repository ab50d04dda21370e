import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

/// Queue and cache in a real Redis Cluster.
@Suite(.timeLimit(.minutes(3))) struct RedisClusterTests {
    @Test func aClusterOfWorkersUsesARedisCluster() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { $0.contains("missing") ? .init(status: 404) : .image(image) }) {
            (origin) async throws in
            try await RedisClusterProcesses.run { (cluster) async throws in
                let directory = try TestDirectory()
                defer { directory.remove() }
                let options = ["--redis", cluster.url]
                let coordinator = try ProgramUnderTest.megaton(["coordinator"] + options)
                let worker = try ProgramUnderTest.megaton(
                    ["worker", "--allow-private", "--allow-root", directory.path, "--render-threads", "1"] + options
                )
                let lines = (0..<20).map { origin.url("/\($0).png").absoluteString }
                let list = try directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.txt")
                // The second time from the cache, whose entries are on all nodes.
                for folder in ["one", "two"] {
                    let submit = try await megaton(
                        ["submit", list, "--output", "\(directory.path)/\(folder)", "--wait", "--json"] + options
                    )
                    #expect(submit.code == 0, "\(submit.output)\(submit.errors)\(worker.errors)")
                    #expect(directory.files.count { $0.hasPrefix("\(folder)/") } >= 20)
                }
                #expect(origin.count("/0.png") == 1)
                let missing = try await megaton(
                    ["submit", origin.url("/missing.png").absoluteString, "--wait"] + options
                )
                #expect(missing.code == 2, "\(missing.errors)")
                for arguments in [["status"], ["doctor"], ["dead", "list"], ["queue", "pause"], ["queue", "resume"]] {
                    let ending = try await megaton(arguments + options)
                    #expect(ending.code == 0, "\(arguments): \(ending.output)\(ending.errors)")
                }
                let stats = try await megaton(["stats", "--json"] + options)
                #expect(stats.code == 0 && stats.output.contains("originals"), "\(stats.output)\(stats.errors)")
                let forgotten = try await megaton(["cache", "forget-failures"] + options)
                #expect(forgotten.code == 0, "\(forgotten.errors)")
                for process in [worker, coordinator] { process.send(SIGTERM) }
                for process in [worker, coordinator] { #expect(await process.ending().code == 0, "\(process.errors)") }
            }
        }
    }

    private func megaton(_ arguments: [String]) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest.megaton(arguments)).ending()
    }
}
