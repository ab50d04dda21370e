import Foundation
import FoundationNetworking
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct HTTP2Tests {
    private func withNginx(
        _ files: [String: Data] = ["a.png": Data(count: 100_000)],
        _ body: (NginxProcess) async throws -> Void
    ) async throws {
        let nginx = try await NginxProcess.start(
            files: files,
            // A second for each, so that they overlap; the connection's number shows that they share one.
            settings: ["limit_rate 100k;", "limit_rate_after 1k;", "add_header X-Connection $connection;"]
        )
        do {
            try await body(nginx)
            await nginx.stop()
        } catch {
            await nginx.stop()
            throw error
        }
    }

    private func loader(_ nginx: NginxProcess, _ change: (inout DataLoader.Configuration) -> Void = { _ in })
        -> DataLoader
    {
        .local {
            $0.caFile = nginx.certificate
            $0.resolve = { host in host.hasSuffix(".test") ? ["127.0.0.1"] : [] }
            change(&$0)
        }
    }

    @Test func twentyRequestsShareOneConnection() async throws {
        try await withNginx { (nginx) async throws in
            let loader = loader(nginx)
            let (underway, peak) = (Counter(), Counter())
            let probes = (0..<20).map { _ in
                let isFirst = Mutex(true)
                return LoadProbe { _ in
                    if isFirst.withLock({ first in
                        defer { first = false }; return first
                    }) {
                        peak.raise(to: underway.add(1))
                    }
                }
            }
            for (number, probe) in probes.enumerated() {
                probe.start(URLRequest(url: nginx.url("/a.png?\(number)")), with: loader)
            }
            for probe in probes {
                await probe.ended()
                underway.add(-1)
            }
            for probe in probes { #expect(probe.error == nil && probe.data.count == 100_000) }
            #expect(Set(probes.map { $0.timings?.httpVersion }) == ["2"])
            #expect(probes.reduce(0) { $0 + ($1.timings?.connects ?? 0) } == 1)
            #expect(Set(probes.map { $0.response?.value(forHTTPHeaderField: "X-Connection") }).count == 1)
            #expect(peak.value > 10, "they came one after the other")
            let first = try #require(probes.compactMap(\.timings).first { $0.connects == 1 })
            #expect(first.tls > 0 && first.remoteAddress == "127.0.0.1")
        }
    }

    @Test func aConnectionHasNoMoreRequestsThanTheLimit() async throws {
        try await withNginx { (nginx) async throws in
            let loader = loader(nginx) { $0.maximumConcurrentStreams = 2 }
            let probes = (0..<4).map { _ in LoadProbe() }
            for probe in probes { probe.start(URLRequest(url: nginx.url("/a.png")), with: loader) }
            for probe in probes { await probe.ended() }
            #expect(probes.allSatisfy { $0.error == nil })
            #expect(probes.reduce(0) { $0 + ($1.timings?.connects ?? 0) } >= 2)
        }
    }

    /// A load balancer has lost the host of a connection, say: nothing arrives over it any more, and it stays open.
    @Test(arguments: [1, 8]) func aSilentConnectionIsNotUsedAgain(count: Int) async throws {
        try await withNginx(["a.png": Data(count: 1000)]) { (nginx) async throws in
            try await FaultProxy.run(to: .tcp(host: "127.0.0.1", port: nginx.port)) { proxy in
                let loader = loader(nginx) { $0.lowSpeedTime = .seconds(2) }
                let url = try #require(URL(string: "https://pictures.test:\(proxy.port)/a.png"))
                func load(_ count: Int) async -> [LoadProbe] {
                    let probes = (0..<count).map { _ in LoadProbe() }
                    for probe in probes { probe.start(URLRequest(url: url), with: loader) }
                    for probe in probes { await probe.ended() }
                    return probes
                }
                let first = await load(count)
                #expect(first.allSatisfy { $0.error == nil && $0.timings?.httpVersion == "2" })
                proxy.silence()
                #expect(await load(count).allSatisfy { $0.failure?.code == .tooSlow })
                #expect(await load(count).allSatisfy { $0.error == nil })
                let last = await load(count)
                #expect(last.allSatisfy { $0.error == nil })
                #expect(last.reduce(0) { $0 + ($1.timings?.connects ?? 0) } == 0, "the fresh one is used again")
            }
        }
    }

    /// Until the last request of a silent connection has ended, others of its origin have connections of their own.
    @Test func aConnectionIsSilentIfNothingHasArrivedForHalfOfTheTime() {
        let (activity, sent) = (ConnectionActivity(), ContinuousClock.now)
        let (first, second) = (activity.use("a:443", localPort: 1), activity.use("a:443", localPort: 1))
        let other = activity.use("a:443", localPort: 2)
        #expect(first === second && first !== other)
        first.lastByte = sent + .seconds(6)
        let later = sent + .seconds(10)
        #expect(!activity.timedOut(first, sent: sent, now: later), "others receive something")
        first.lastByte = sent + .seconds(5)
        #expect(!activity.isSilent("a:443"))
        #expect(activity.timedOut(first, sent: sent, now: later))
        #expect(!activity.timedOut(second, sent: sent, now: later), "it is known already")
        #expect(activity.isSilent("a:443") && !activity.isSilent("b:443"))
        activity.leave(first)
        #expect(activity.isSilent("a:443"))
        activity.leave(second)
        #expect(!activity.isSilent("a:443"), "it is closed now, and the other one is not silent")
        #expect(activity.use("a:443", localPort: 1) !== first)
    }

    /// Only the stream is reset: the next request uses the same connection.
    @Test func aDownloadThatEndsEarlyLeavesTheConnection() async throws {
        let image = try TestImage.progressiveNoise(width: 640, height: 480)
        try await withNginx(["a.jpg": image]) { (nginx) async throws in
            var configuration = ImagePipeline.Configuration(dataLoader: loader(nginx))
            configuration.dataCachePolicy = .storeEncodedImages
            let pipeline = ImagePipeline(configuration: configuration)
            for number in 0..<2 {
                let metrics = PipelineMetrics()
                let request = ImageRequest(url: nginx.url("/a.jpg?\(number)"))
                let rendition = Rendition(width: 60)
                let images = try await pipeline.renditions([rendition], for: request, metrics: metrics)
                #expect(images[0].facts?.bytes == image.count)
                #expect(metrics.counts.bytesIn < image.count - DownloadObserver.leastSaved)
                let timings = try #require(metrics.timings)
                #expect(timings.httpVersion == "2" && timings.connects == (number == 0 ? 1 : 0))
                #expect(timings.bytes == metrics.counts.bytesIn && timings.total > timings.firstByte)
            }
        }
    }

    @Test func anUntrustedCertificateIsRefused() async throws {
        try await withNginx { (nginx) async throws in
            let stranger = loader(nginx) { $0.caFile = nil }
            let probe = await LoadProbe.load(nginx.url("/a.png"), with: stranger)
            #expect(probe.failure?.code == .tls && probe.chunks == 0)
            // And a certificate for another name.
            let other = await LoadProbe.load(nginx.url("/a.png", host: "other.test"), with: loader(nginx))
            #expect(other.failure?.code == .tls && other.chunks == 0)
        }
    }
}

/// A number that several threads change.
private final class Counter: Sendable {
    private let number = Mutex(0)

    var value: Int { number.withLock { $0 } }

    @discardableResult
    func add(_ change: Int) -> Int {
        number.withLock { number in
            number += change
            return number
        }
    }

    func raise(to least: Int) { number.withLock { $0 = max($0, least) } }
}
