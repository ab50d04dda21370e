import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// Workers with local caches, with several cache Redis, and with a cache Redis that is full.
@Suite(.timeLimit(.minutes(3))) struct CacheFaultTests {
    private static let lasting = ("Cache-Control", "max-age=3600")

    private func run(_ cluster: FaultCluster, _ urls: [URL], size: Int) async throws {
        let summary = try await cluster.summary(of: try cluster.submit(urls, ["--size", "\(size)x\(size)"]))
        #expect(summary.done == urls.count && summary.failed == 0)
    }

    /// One lost server of three costs a share of the entries, and no job fails.
    @Test(.enabled(if: LongTests.areOn, "takes long; ./scripts/test --all runs it")) func aLostCacheServerFailsNoJob()
        async throws
    {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                let lost = try await RedisServerProcess.start()
                let servers = [first, second, lost]
                let caches = servers.flatMap { ["--cache-redis", $0.url] }
                try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
                    try await cluster.start(workers: [
                        caches, Array(servers.reversed()).flatMap { ["--cache-redis", $0.url] },
                    ])
                    let urls = (0..<40).map { origin.url("/\($0).png") }
                    try await run(cluster, urls, size: 32)
                    #expect(origin.total == 40, "both workers look in the same place")
                    await lost.stop()
                    try await run(cluster, urls, size: 32)
                    #expect(origin.total > 40 && origin.total < 70, "\(origin.total)")
                    let stats = await
                        (try ProgramUnderTest.megaton(
                            ["stats", "--redis", cluster.server.url] + caches
                        )).ending()
                    #expect(stats.code == 0 && stats.output.contains("unix://\(lost.socket)"), "\(stats.errors)")
                    let doctor = await
                        (try ProgramUnderTest.megaton(
                            ["doctor", "--redis", cluster.server.url] + caches
                        )).ending()
                    #expect(doctor.code == 1 && doctor.output.contains(lost.socket), "\(doctor.output)")
                    let forgetting = await
                        (try ProgramUnderTest.megaton(
                            ["cache", "forget-failures", "--redis", cluster.server.url] + caches
                        )).ending()
                    #expect(forgetting.code == 69 && forgetting.errors.contains("Not all servers"))
                }
            }
        }
    }

    /// Jobs that name the same sources in other sizes, all of them admitted at the same time, share one request for
    /// each source, although the workers are small; later ones cost at most one more.
    @Test func repeatedSourcesOfAListAreFetchedOnce() async throws {
        try await FaultCluster.runWithOrigin(delay: .milliseconds(100)) { (cluster, origin) async throws in
            let options = ["--concurrency", "2"]
            try await cluster.start(workers: [options, options])
            func submit(_ sizes: [Int], _ name: String) async throws {
                let lines = sizes.flatMap { size in
                    (0..<8).map { number in
                        let source = origin.url("/\(number).png")
                        return #"{"source":"\#(source)","renditions":[{"width":\#(size)}]}"#
                    }
                }
                let list = try cluster.directory.write(Data(lines.joined(separator: "\n").utf8), to: name)
                let summary = try await cluster.summary(of: try cluster.submit(list: list))
                #expect(summary.done == lines.count)
            }
            try await submit([16, 24, 32], "three.jsonl")
            #expect(origin.total == 8)
            try await submit([40], "later.jsonl")
            #expect(origin.total == 8)
        }
    }

    @Test func aServerMayBeNamedOnceOnly() async throws {
        let twice = await
            (try ProgramUnderTest.megaton(
                ["status", "--redis", "redis://a", "--cache-redis", "redis://b", "--cache-redis", "redis://:x@b:6379"]
            )).ending()
        #expect(twice.code == 64 && twice.errors.contains("redis://b:6379 is named twice"), "\(twice.errors)")
    }

    /// Two workers of a machine share a directory, and read an entry from Redis once.
    @Test func workersShareALocalCache() async throws {
        try await OriginServer.run(answer: { _ in
            .image(FaultCluster.image, headers: [Self.lasting])
        }) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                let directory = "\(cluster.directory.path)/local"
                let options = ["--local-cache", directory, "--local-cache-size", "64"]
                try await cluster.start(workers: [options, options])
                let urls = (0..<10).map { origin.url("/\($0).png") }
                try await run(cluster, urls, size: 32)
                let files = FileManager.default.enumerator(atPath: directory)?.allObjects.count ?? 0
                #expect(files >= 10, "renditions are copied")
                for _ in 0..<3 { try await run(cluster, urls, size: 32) }
                #expect(origin.total == 10)
            }
        }
    }

    /// A file in the place of the directory: the worker says so once, and works without.
    @Test func anUnusableLocalCacheStopsNoWorker() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let file = try cluster.directory.write(Data("x".utf8), to: "file")
            let workers = try await cluster.start(workers: [["--local-cache", file]])
            try await run(cluster, (0..<5).map { origin.url("/\($0).png") }, size: 32)
            workers[0].send(SIGTERM)
            let ending = await workers[0].ending()
            #expect(ending.code == 0)
            let lines = ending.errors.split(separator: "\n").filter { $0.contains("--local-cache") }
            #expect(lines.count == 1, "\(ending.errors)")
        }
    }

    /// Fault: with a full cache Redis that may not evict, the jobs of one source took as long as if each had fetched it
    /// after the other. The workers fetch at the same time: each sends its request while those of the others are held.
    @Test func aFullCacheIsNoSlowerThanNone() async throws {
        try await RedisServerProcess.run(.init(settings: ["maxmemory 1mb"])) { (full) async throws in
            try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
                let options = ["--concurrency", "8", "--cache-redis", full.url]
                let workers = try await cluster.start(workers: [options, options, options])
                let list = (0..<24).map { number in
                    let size = 16 + number
                    return #"{"source":"\#(origin.url("/one.png"))","renditions":[{"width":\#(size)}]}"#
                }
                let jobs = try cluster.directory.write(Data(list.joined(separator: "\n").utf8), to: "jobs.jsonl")
                origin.hold()
                let submission = try cluster.submit(list: jobs)
                await origin.waitForRequests("/one.png", count: 1)
                let cache = full.client()
                defer { cache.close() }
                // Another worker waits for the result, which cannot be stored.
                _ = try await cluster.poll { _ -> Bool? in
                    for flight in (try await cache.send(["KEYS", "megaton:f:*"]).array ?? []).compactMap(\.string) {
                        if try await cache.send(["HEXISTS", .string(flight), "w"]).int == 1 { return true }
                    }
                    return nil
                }
                origin.release()
                origin.hold()
                await origin.waitForRequests("/one.png", count: 3)
                origin.release()
                let summary = try await cluster.summary(of: submission)
                #expect(summary.done == 24 && summary.failed == 0)
                for worker in workers { worker.send(SIGTERM) }
                for worker in workers {
                    let ending = await worker.ending()
                    let lines = ending.errors.split(separator: "\n").filter { $0.contains("cache Redis is full") }
                    #expect(lines.count <= 1, "\(ending.errors)")
                }
            }
        }
    }
}
