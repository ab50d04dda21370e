import Foundation
import MegatonCore
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// `/metrics` of real processes.
@Suite(.timeLimit(.minutes(3))) struct MetricsTests {
    private static func metrics(_ port: Int) async throws -> String {
        let curl = try ProgramUnderTest(
            program: "/usr/bin/curl",
            arguments: ["--silent", "--max-time", "20", "http://127.0.0.1:\(port)/metrics"]
        )
        return await curl.ending().output
    }

    /// Asks until the metrics have a line. Each request takes a process, so this is no busy loop; the suite's time
    /// limit bounds it.
    private static func metrics(_ port: Int, with line: String) async throws -> String {
        while true {
            let text = try await metrics(port)
            if text.contains("\n\(line)\n") { return text }
            try Task.checkCancellation()
        }
    }

    /// Names of the metrics in a text, from their headers.
    private static func names(in text: String) -> Set<String> {
        Set(text.split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }.map { String($0.split(separator: " ")[2]) })
    }

    /// The findings of Prometheus' own check; empty if there are none.
    private static func check(_ text: String) async throws -> String {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let file = try directory.write(Data(text.utf8), to: "metrics")
        let script = "/usr/bin/promtool check metrics < '\(file)'"
        let ending = await (try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])).ending()
        return ending.code == 0 ? ending.errors : "\(ending.code): \(ending.errors)"
    }

    /// Names of the metrics that the page lists.
    private static func page() throws -> Set<String> {
        let lines = try Repository.text("docs/metrics.md").split(separator: "\n")
        let entry = /^- `((?:megaton|process)_[a-z_]+)`/
        return Set(lines.compactMap { line in line.firstMatch(of: entry).map { String($0.output.1) } })
    }

    /// The metrics of an HTTP server after requests for images and to the API.
    private static func loadedMetrics(_ port: Int) async throws -> String {
        func status(_ path: String) async throws -> String {
            let arguments = ["--silent", "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code}"]
            let curl = try ProgramUnderTest(
                program: "/usr/bin/curl",
                arguments: arguments + ["http://127.0.0.1:\(port)\(path)"]
            )
            return await curl.ending().output
        }
        while try await status("/ready") != "200" { try Task.checkCancellation() }
        let dot = TestImage.png(width: 2, height: 1) { _, _ in (255, 0, 0, 255) }
        let source = "data:image/png;base64,\(dot.base64EncodedString())"
        let name = Data(source.utf8).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
        let image = "/image/unsafe/rs:fit:2:1/\(name).png"
        // Until the limits of hosts are connected, images get 503.
        while try await status(image) != "200" { try Task.checkCancellation() }
        #expect(try await status(image) == "200")
        #expect(try await status("/image/unsafe/rs:fit:2:1/none") == "400")
        for path in ["queue", "workers", "hosts", "batches/b", "dead", "openapi.json"] {
            #expect(try await status("/api/v1/\(path)") == "200", "\(path)")
        }
        #expect(try await status("/api/v1/batches/none") == "404")
        let text = try await metrics(port)
        #expect(text.contains(#"megaton_renders_total{engine="libvips",format="png"}"#), "\(text)")
        #expect(text.contains("\nmegaton_image_places 256\n") && text.contains("\nmegaton_image_bytes_total "))
        #expect(text.contains(#"megaton_http_requests_total{route="/image/**",method="GET",status="400"} 1"#))
        return text
    }

    @Test func aClusterCountsItsJobs() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        try await RedisServerProcess.run { (server) async throws in
            let ports = (coordinator: try FreePort.find(), worker: try FreePort.find(), serve: try FreePort.find())
            let coordinator = try ProgramUnderTest.megaton([
                "coordinator", "--redis", server.url, "--health", "127.0.0.1:\(ports.coordinator)",
            ])
            let worker = try ProgramUnderTest.megaton([
                "worker", "--redis", server.url, "--allow-root", directory.path, "--health",
                "127.0.0.1:\(ports.worker)",
            ])
            let serve = try ProgramUnderTest.megaton([
                "serve", "--redis", server.url, "--open", "--unsigned-images", "--listen", "127.0.0.1:\(ports.serve)",
            ])
            let image = try directory.write(TestImage.quarters(width: 400, height: 300), to: "a.png")
            let bad = try directory.write(Data("no image".utf8), to: "bad.png")
            let submit = try ProgramUnderTest.megaton([
                "submit", "--redis", server.url, "--wait", "--batch", "b", "--size", "64x64", "--output",
                directory.path + "/out", image, bad,
            ])
            #expect(await submit.ending().code == 2)
            let ofWorker = try await Self.metrics(
                ports.worker,
                with: "megaton_job_ends_total{result=\"done\",code=\"\"} 1"
            )
            #expect(ofWorker.contains("megaton_job_ends_total{result=\"failed\",code=\"unsupported_format\"} 1"))
            #expect(ofWorker.contains("megaton_job_claims_total 2"))
            #expect(ofWorker.contains("from=\"render\"} 1"))
            #expect(ofWorker.contains("megaton_job_duration_seconds_count{stage=\"waiting\"} 2"))
            #expect(ofWorker.contains("megaton_build_info{version=\""))
            #expect(try await Self.check(ofWorker) == "")
            let ofCoordinator = try await Self.metrics(
                ports.coordinator,
                with: "megaton_queue_ended_jobs_total{result=\"done\"} 1"
            )
            #expect(ofCoordinator.contains("megaton_admitted_jobs_total{result=\"admitted\"} 2"))
            #expect(ofCoordinator.contains("megaton_queue_jobs{state=\"dead\",priority=\"\"} 1"))
            #expect(ofCoordinator.contains("megaton_coordinator_leads{shard=\"0\"} 1"))
            #expect(ofCoordinator.contains("megaton_cluster_up 1"))
            #expect(try await Self.check(ofCoordinator) == "")
            let ofServer = try await Self.loadedMetrics(ports.serve)
            #expect(try await Self.check(ofServer) == "")
            // Each metric of the page appears, and no other.
            let shown = [ofWorker, ofCoordinator, ofServer].reduce(into: Set<String>()) {
                $0.formUnion(Self.names(in: $1))
            }
            let page = try Self.page()
            #expect(shown == page)
            for process in [worker, coordinator, serve] {
                process.send(SIGTERM)
                #expect(await process.ending().code == 0)
            }
        }
    }

    /// Jobs that wait for a worker: the backlog and its age are what alerts stand on.
    @Test func theBacklogAndItsAgeAreShown() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let port = try FreePort.find()
            let coordinator = try ProgramUnderTest.megaton([
                "coordinator", "--redis", server.url, "--health", "127.0.0.1:\(port)",
            ])
            let submit = try ProgramUnderTest.megaton([
                "submit", "--redis", server.url, "--batch", "b", "--size", "64x64", "http://127.0.0.1:9/a.jpg",
                "http://127.0.0.1:9/b.jpg",
            ])
            #expect(await submit.ending().code == 0)
            _ = try await Self.metrics(port, with: "megaton_queue_jobs{state=\"ready\",priority=\"normal\"} 2")
            // The age grows while no worker comes.
            var age = 0.0
            while age < 2 {
                let line = try await Self.metrics(port).split(separator: "\n").first {
                    $0.hasPrefix("megaton_queue_oldest_ready_seconds{priority=\"normal\"}")
                }
                let next = Double(line?.split(separator: " ").last ?? "") ?? -1
                #expect(next >= age)
                age = next
                try Task.checkCancellation()
            }
            coordinator.send(SIGTERM)
            #expect(await coordinator.ending().code == 0)
        }
    }

    @Test func withoutRedisTheProcessStillShowsItsOwnMetrics() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let port = try FreePort.find()
            let coordinator = try ProgramUnderTest.megaton([
                "coordinator", "--redis", server.url, "--health", "127.0.0.1:\(port)",
            ])
            // Before that, a coordinator ends without Redis.
            _ = try await Self.metrics(port, with: "megaton_queue_has_leader 1")
            await server.crash()
            let text = try await Self.metrics(port, with: "megaton_cluster_up 0")
            #expect(text.contains("process_resident_memory_bytes "))
            #expect(!text.contains("megaton_queue_jobs{"))
            coordinator.send(SIGTERM)
            _ = await coordinator.ending()
        }
    }
}
