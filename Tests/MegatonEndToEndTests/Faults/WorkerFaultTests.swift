import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// Workers that are killed, stopped or terminated while their jobs wait for the origin.
///
/// One test at a time: leases of two seconds need a machine that is not busy with other tests.
@Suite(.serialized, .timeLimit(.minutes(2))) struct WorkerFaultTests {
    /// Returns once the origin has received a request for each URL.
    private func waitForRequests(_ urls: [URL], at origin: OriginServer) async {
        for url in urls { await origin.waitForRequests(url.path(), count: 1) }
    }

    // `kill -9` of a worker with 8 jobs.
    @Test func aKilledWorkersJobsAllRunAgainAndAreCountedOnce() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let worker = try await cluster.start(workers: [FaultCluster.hasty])[0]
            origin.hold()
            let urls = (0..<8).map { origin.url("/\($0).png") }
            let submit = try cluster.submit(urls)
            await waitForRequests(urls, at: origin)
            worker.send(SIGKILL)
            _ = await worker.ending()
            origin.release()
            try cluster.worker(FaultCluster.hasty)
            let summary = try await cluster.summary(of: submit)
            #expect(summary.jobs == 8 && summary.done == 8 && summary.failed == 0)
            #expect(try await cluster.statistic("done") == 8)
            #expect(try await cluster.statistic("stalled") >= 8)
            #expect(urls.allSatisfy { origin.count($0.path()) >= 2 })
            #expect(try await cluster.leftovers() == [])
        }
    }

    // SIGSTOP of a worker beyond its lease, then SIGCONT.
    @Test func aWorkerThatWasStoppedForLongerThanItsLeaseHasNoSayAfterwards() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let history = ["--history", cluster.directory.path + "/stopped.jsonl"]
            let stopped = try await cluster.start(workers: [FaultCluster.hasty + history])[0]
            origin.hold()
            let urls = (0..<4).map { origin.url("/\($0).png") }
            let submit = try cluster.submit(urls)
            await waitForRequests(urls, at: origin)
            stopped.send(SIGSTOP)
            let other = try cluster.worker(
                FaultCluster.hasty + ["--history", cluster.directory.path + "/other.jsonl"]
            )
            let name = ":\(stopped.pid):"
            try await cluster.wait(for: ["meta"]) { client in
                try await FaultCluster.metas(client).allSatisfy { !$0.contains(name) }
            }
            // Both workers get their responses now, but the stopped one cannot read them yet.
            origin.release()
            try await cluster.wait(untilDone: 4)
            stopped.send(SIGCONT)
            let summary = try await cluster.summary(of: submit)
            for worker in [stopped, other] {
                worker.send(SIGTERM)
                #expect(await worker.ending().code == 0, "\(worker.errors)")
            }
            #expect(summary.jobs == 4 && summary.done == 4 && summary.failed == 0)
            #expect(try await cluster.statistic("done") == 4)
            let said = try cluster.lines(of: "stopped.jsonl", as: HistoryEvent.self).filter { $0.kind == .settle }
            #expect(!said.contains { $0.result?.hasSuffix("/ok") == true }, "\(said)")
            let others = try cluster.lines(of: "other.jsonl", as: HistoryEvent.self).filter { $0.result == "done/ok" }
            #expect(Set(others.compactMap(\.id)).count == 4 && others.count == 4, "\(others)")
            #expect(try await cluster.lateEnds() > 0)
        }
    }

    // SIGTERM under load.
    @Test func aWorkerTerminatedUnderLoadLosesNoJobAndNoAttempt() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            // With the default lease, here and below, so that an attempt can only be lost through the end of the
            // worker.
            let options = ["--concurrency", "8", "--drain-timeout", "0.5"]
            let worker = try await cluster.start(workers: [options])[0]
            origin.hold()
            let urls = (0..<20).map { origin.url("/\($0).png") }
            let submit = try cluster.submit(urls, ["--ledger", cluster.directory.path + "/ledger.jsonl"])
            try await cluster.wait(for: ["body", "lease"]) { client in
                let alive = try await client.send(["HLEN", "megaton:{default}:2:body"]).int
                let running = try await client.send(["ZCARD", "megaton:{default}:2:lease"]).int
                return alive == 20 && running == 8
            }
            worker.send(SIGTERM)
            #expect(await worker.ending().code == 0, "\(worker.errors)")
            let metas = try await FaultCluster.metas(cluster.client)
            #expect(metas.count == 20 && metas.allSatisfy(FaultCluster.isAsNew), "\(metas)")
            #expect(try await cluster.client.send(["LLEN", "megaton:{default}:2:ready:normal"]).int == 20)
            #expect(try await cluster.client.send(["ZCARD", "megaton:{default}:2:lease"]).int == 0)
            origin.release()
            try cluster.worker()
            let summary = try await cluster.summary(of: submit)
            #expect(summary.jobs == 20 && summary.done == 20)
            let outcomes = try cluster.lines(of: "ledger.jsonl", as: JobOutcome.self)
            #expect(outcomes.count == 20 && outcomes.allSatisfy { $0.attempts == 1 })
            #expect(try await cluster.statistic("stalled") == 0)
        }
    }

    // SIGTERM twice.
    @Test func aSecondSignalGivesBackAtOnceWhatRuns() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            // The drain time is an hour: if the worker ends within this test, the second signal is the reason.
            let worker = try await cluster.start(workers: [["--concurrency", "8", "--drain-timeout", "3600"]])[0]
            origin.hold()
            let urls = (0..<8).map { origin.url("/\($0).png") }
            for (index, url) in urls.enumerated() { try await cluster.push(url, id: "job-\(index)") }
            await waitForRequests(urls, at: origin)
            worker.send(SIGTERM)
            // Two signals that are pending together are one.
            _ = try await cluster.poll { _ -> Bool? in worker.errors.contains("draining") ? true : nil }
            worker.send(SIGTERM)
            #expect(await worker.ending().code == 0, "\(worker.errors)")
            let metas = try await FaultCluster.metas(cluster.client)
            #expect(metas.count == 8 && metas.allSatisfy(FaultCluster.isAsNew), "\(metas)")
            #expect(try await cluster.client.send(["LLEN", "megaton:{default}:2:ready:normal"]).int == 8)
            #expect(try await cluster.client.send(["ZCARD", "megaton:{default}:2:lease"]).int == 0)
            origin.release()
            try cluster.worker()
            try await cluster.wait(untilDone: 8)
            #expect(try await cluster.leftovers() == [])
        }
    }

    // An image that crashes every worker that opens it.
    @Test func anImageThatCrashesItsWorkersIsPoisonAndTheOthersFinish() async throws {
        let good = FaultCluster.image
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            .image(path == "/poison.png" ? good + FaultLibrary.crash : good)
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                let urls = ["poison", "0", "1", "2", "3", "4"].map { origin.url("/\($0).png") }
                let jobs = urls.map { (url: URL) in
                    #"{"id":"\#(url.lastPathComponent)","source":"\#(url.absoluteString)"}"#
                }
                let list = try cluster.directory.write(Data(jobs.joined(separator: "\n").utf8), to: "jobs.jsonl")
                try cluster.coordinator()
                let fragile = { () throws in
                    try cluster.worker(FaultCluster.hasty, environment: FaultLibrary.crashingCodec())
                }
                var worker = try fragile()
                let submit = try cluster.submit(list: list)
                // The third death is that of a process that runs nothing else.
                for _ in 1...2 {
                    #expect(await worker.ending().code == 128 + SIGSEGV, "\(worker.errors)")
                    // Leases are expired by hand: the first scenario shows that they expire by themselves.
                    try await cluster.expireLeases()
                    worker = try fragile()
                }
                let summary = try await cluster.summary(of: submit, code: 2)
                #expect(summary.jobs == 6 && summary.done == 5 && summary.failed == 1)
                #expect(try await cluster.deathCode("poison.png") == "poison")
                #expect(worker.isRunning)
                #expect(try await cluster.client.send(["ZCARD", "megaton:{default}:2:dead"]).int == 1)
                #expect(try await cluster.leftovers() == [])
            }
        }
    }
}
