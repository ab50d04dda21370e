import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// Redis, a coordinator and workers started one by one, as on a fleet.
@Suite(.timeLimit(.minutes(3))) struct ClusterTests {
    private let keys = QueueKeys()

    /// Runs the body with a coordinator and `count` workers, and ends them with SIGTERM.
    private func withCluster(
        workers count: Int,
        options: [String] = [],
        _ body: (RedisServerProcess, TestDirectory, [ProgramUnderTest]) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let directory = try TestDirectory()
            let redis = ["--redis", server.url]
            let coordinator = try ProgramUnderTest.megaton(["coordinator"] + redis)
            let workers = try (0..<count).map { _ in
                try ProgramUnderTest.megaton(
                    ["worker", "--allow-root", directory.path, "--allow-private", "--render-threads", "1"] + redis
                        + options
                )
            }
            try await server.wait(forChangesOf: ["megaton:{default}:2:workers", "megaton:{default}:2:leader"]) {
                client in
                let workers = try await client.send(["ZCARD", "megaton:{default}:2:workers"]).int
                let leaders = try await client.send(["EXISTS", "megaton:{default}:2:leader"]).int
                return workers == count && leaders == 1
            }
            try await body(server, directory, workers)
            for process in workers + [coordinator] { process.send(SIGTERM) }
            for process in workers + [coordinator] {
                let code = await process.ending().code
                #expect(code == 0 || code == 128 + SIGKILL, "\(process.errors)")
            }
        }
    }

    private func megaton(_ arguments: [String], _ server: RedisServerProcess) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest.megaton(arguments + ["--redis", server.url])).ending()
    }

    @Test func aJobFromRedisCLIIsDoneAndCounted() async throws {
        try await withCluster(workers: 2) { (server, directory, _) async throws in
            let image = try directory.write(TestImage.quarters(width: 100, height: 100), to: "a.png")
            let job = #"{"source":"file://\#(image)","output":"file://\#(directory.path)/out/{stem}-{name}.{ext}"}"#
            for pushed in ["{nonsense", job] {
                let push = try ProgramUnderTest(
                    program: "/usr/bin/redis-cli",
                    arguments: ["-s", server.socket, "LPUSH", "megaton:{default}:jobs", pushed]
                )
                #expect(await push.ending().code == 0)
            }
            try await server.wait(forChangesOf: ["megaton:{default}:2:stat"]) { client in
                try await client.send(["HGET", "megaton:{default}:2:stat", "done"]).int == 1
            }
            #expect(directory.files.contains("out/a-256x256.jpg"))
            let status = try await megaton(["status", "--json"], server)
            let json = try #require(
                try JSONSerialization.jsonObject(with: Data(status.output.utf8)) as? [String: Any]
            )
            #expect(json["done"] as? Int == 1 && json["failed"] as? Int == 1 && json["dead"] as? Int == 1)
            #expect((json["workers"] as? [Any])?.count == 2)
            let client = server.client()
            defer { client.close() }
            let dead = try await client.send(["HVALS", "megaton:{default}:2:deadinfo"]).array?.first?.string ?? ""
            #expect(dead.contains("invalid_job") && dead.contains("{nonsense"))
            let table = try await megaton(["status"], server)
            #expect(table.code == 0 && table.output.contains("done        1"))
            let doctor = try await megaton(["doctor"], server)
            #expect(doctor.code == 0 && doctor.output.contains("appendonly is off"), "\(doctor.output)")
        }
    }

    @Test func aBatchIsWaitedForAndItsCacheIsCounted() async throws {
        let (png, jpeg) = (TestImage.quarters(width: 100, height: 100), try TestImage.jpeg(width: 100, height: 100))
        try await OriginServer.run(answer: { .image($0 == "/0.png" ? jpeg : png) }) { (origin) async throws in
            try await withCluster(workers: 2) { (server, directory, workers) async throws in
                let urls = (0..<30).map { origin.url("/\($0 % 3).png").absoluteString }
                let list = try directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
                let ledger = directory.path + "/ledger.jsonl"
                let submit = try await megaton(
                    ["submit", list, "--batch", "spring", "--wait", "--json", "--ledger", ledger],
                    server
                )
                #expect(submit.code == 0, "\(submit.errors)")
                #expect(submit.errors.contains("stay in the cache"), "\(submit.errors)")
                let json = try #require(
                    try JSONSerialization.jsonObject(with: Data(submit.output.utf8)) as? [String: Any]
                )
                #expect(
                    json["done"] as? Int == 30 && json["origin_fetches"] as? Int == 3 && json["renders"] as? Int == 3
                )
                #expect(try String(contentsOfFile: ledger, encoding: .utf8).split(separator: "\n").count == 30)
                let again = try await megaton(["submit", list, "--batch", "spring"], server)
                #expect(again.code == 64 && again.errors.contains("--batch"))
                // Workers add their counters when they stop, at the latest.
                for worker in workers { worker.send(SIGTERM) }
                for worker in workers { #expect(await worker.ending().code == 0) }
                let stats = try await megaton(["stats", "--json"], server)
                let numbers = try #require(
                    try JSONSerialization.jsonObject(with: Data(stats.output.utf8)) as? [String: Any]
                )
                #expect(numbers["origin_fetches"] as? Int == 3 && numbers["renders"] as? Int == 3)
                #expect(numbers["renders_by_planes"] as? Int == 1 && numbers["renders_left_by_planes"] as? Int == 0)
                #expect(numbers["distinct_originals"] as? Int == 3)
                let table = try await megaton(["stats"], server)
                #expect(table.output.contains("127.0.0.1") && table.output.contains("fetches per original    1.00"))
                let prometheus = try await megaton(["stats", "--prometheus"], server)
                #expect(prometheus.output.contains("megaton_cache_origin_fetches_total 3"))
                #expect(prometheus.output.contains("megaton_cache_renders_by_planes_total 1"))
                let leaders = (numbers["leads"] as? Int).map { "megaton_cache_flight_leaders_total \($0)\n" }
                #expect(prometheus.output.contains(try #require(leaders)), "the JSON keeps the older name")
            }
        }
    }

    @Test func aKilledWorkersJobsAreDoneByTheOthersAndCountedOnce() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            try await withCluster(workers: 2, options: ["--lease", "2"]) { (server, directory, workers) async throws in
                let urls = (0..<100).map { origin.url("/\($0).png").absoluteString }
                let list = try directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
                let client = server.client()
                defer { client.close() }
                try await client.noteAnswer(of: origin)
                origin.hold()
                let submit = try ProgramUnderTest.megaton([
                    "submit", list, "--wait", "--json", "--redis", server.url, "--output", directory.path + "/out",
                ])
                // Some jobs are waiting for their origin.
                await origin.waitForRequests("/0.png", count: 1)
                try await server.wait(forChangesOf: ["megaton:{default}:2:lease"]) { client in
                    try await client.send(["ZCARD", "megaton:{default}:2:lease"]).int == 32
                }
                workers[0].send(SIGKILL)
                origin.release()
                let ending = await submit.ending()
                #expect(ending.code == 0, "\(ending.errors)")
                let json = try #require(
                    try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
                )
                #expect(json["done"] as? Int == 100 && json["failed"] as? Int == 0 && json["jobs"] as? Int == 100)
                #expect(directory.files.count { $0.hasPrefix("out/") } == 100)
                #expect(try await client.send(["HGET", "megaton:{default}:2:stat", "done"]).int == 100)
                #expect(try await client.send(["HGET", "megaton:{default}:2:stat", "stalled"]).int ?? 0 > 0)
                for key in ["lease", "delay", "dead", "ready:normal", "body", "meta"] {
                    #expect(
                        try await client.send(["EXISTS", .string("megaton:{default}:2:\(key)")]).int == 0,
                        "\(key)"
                    )
                }
            }
        }
    }

    @Test func aStoppedWorkerGivesBackWhatItCannotFinish() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let options = ["--drain-timeout", "0"]
            try await withCluster(workers: 1, options: options) { (server, directory, workers) async throws in
                origin.hold()
                let client = server.client()
                defer { client.close() }
                let job = #"{"id":"a","source":"\#(origin.url("/a.png").absoluteString)"}"#
                try await client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
                await origin.waitForRequests("/a.png", count: 1)
                workers[0].send(SIGTERM)
                #expect(await workers[0].ending().code == 0)
                #expect(
                    try await client.send(["LRANGE", "megaton:{default}:2:ready:normal", "0", "-1"]).array?.count == 1
                )
                #expect(
                    try await client.send(["HGET", "megaton:{default}:2:meta", "a"]).string?.hasPrefix("1+1|0|@")
                        == true
                )
                #expect(try await client.send(["ZCARD", "megaton:{default}:2:workers"]).int == 0)
            }
        }
    }

    /// Without a worker no ready job would ever end, so the submission does not wait for one.
    @Test func aSubmissionWithoutAWorkerIsInterruptedAtOnce() async throws {
        try await withCluster(workers: 0) { (server, directory, _) async throws in
            let urls = (0..<3).map { "https://example.org/\($0).png" }
            let list = try directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
            let submit = try ProgramUnderTest.megaton([
                "submit", list, "--wait", "--batch", "spring", "--output", directory.path, "--redis", server.url,
            ])
            try await server.wait(forChangesOf: ["megaton:{default}:2:ready:normal"]) { client in
                try await client.send(["LLEN", "megaton:{default}:2:ready:normal"]).int == 3
            }
            submit.send(SIGINT)
            let ending = await submit.ending()
            #expect(
                ending.code == 130 && ending.errors.contains("no worker is running; 3 queued jobs were cancelled"),
                "\(ending.errors)"
            )
            let client = server.client()
            defer { client.close() }
            #expect(try await client.send(["SISMEMBER", "megaton:{default}:2:cancelled", "spring"]).int == 1)
        }
    }

    /// Fault: it waited for 10 s without a word, and did not say how its jobs get their lines.
    @Test func aSubmissionToAPausedQueueIsInterruptedAtOnce() async throws {
        try await withCluster(workers: 1) { (server, directory, _) async throws in
            #expect(try await megaton(["queue", "pause"], server).code == 0)
            let urls = (0..<3).map { "https://example.org/\($0).png" }
            let list = try directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
            let ledger = directory.path + "/spring.jsonl"
            let submit = try ProgramUnderTest.megaton([
                "submit", list, "--wait", "--batch", "spring", "--output", directory.path, "--redis", server.url,
                "--ledger", ledger,
            ])
            try await server.wait(forChangesOf: ["megaton:{default}:2:ready:normal"]) { client in
                try await client.send(["LLEN", "megaton:{default}:2:ready:normal"]).int == 3
            }
            submit.send(SIGINT)
            let ending = await submit.ending()
            #expect(ending.code == 130, "\(ending.errors)")
            #expect(ending.errors.contains("interrupted; 3 jobs that have not ended are being cancelled."))
            let words = "the queue is paused; 3 queued jobs were cancelled and are not in the ledger. They end when"
            #expect(ending.errors.contains(words), "\(ending.errors)")
            #expect(try await megaton(["queue", "resume"], server).code == 0)
            let results = try await megaton(["batch", "results", "spring", "--follow", "--ledger", ledger], server)
            #expect(results.code == 2, "\(results.errors)")
            let lines = try String(contentsOfFile: ledger, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 3 && lines.allSatisfy { $0.contains(#""status":"cancelled""#) }, "\(lines)")
        }
    }

    @Test(arguments: ["redis-control.conf", "redis-cache.conf"])
    func theRedisConfigurationsOfTheRepositoryStart(_ name: String) async throws {
        let options = RedisServerProcess.Options(file: Repository.root + "/deploy/" + name)
        try await RedisServerProcess.run(options) { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let policy = try await client.send(["CONFIG", "GET", "maxmemory-policy"]).dictionary["maxmemory-policy"]
            let appends = try await client.send(["CONFIG", "GET", "appendonly"]).dictionary["appendonly"]
            if name == "redis-control.conf" {
                #expect(policy == "noeviction" && appends == "yes")
                try await EvictionPolicyCheck.run(client)
            } else {
                #expect(policy == "allkeys-lru" && appends == "no")
            }
        }
    }
}
