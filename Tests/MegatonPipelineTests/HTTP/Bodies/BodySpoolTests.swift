import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// The files and the memory in which bodies are stored, and the memory limit that copies of them wait for.
@Suite(.timeLimit(.minutes(2))) struct BodySpoolTests {
    private static let body = Data((0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
    private let memory = BodyMemory(limit: 200_000)
    private let directory: TestDirectory

    init() throws { directory = try TestDirectory() }

    private func spool(_ threshold: Int = 100_000) -> BodySpool {
        BodySpool(threshold: threshold, directory: directory.path, memory: memory)
    }

    private func fill(_ buffer: inout BodyBuffer, _ count: Int, total: Int?) throws {
        for start in stride(from: 0, to: count, by: 16_000) {
            try buffer.append(Self.body[start..<min(count, start + 16_000)], total: total)
        }
    }

    private var isEmpty: Bool {
        (try? FileManager.default.contentsOfDirectory(atPath: directory.path))?.isEmpty == true
    }

    // MARK: - Bodies

    @Test(arguments: [nil, 1_000_000]) func aLargeBodyIsInAFileWithoutAName(_ total: Int?) throws {
        var buffer = BodyBuffer(spool())
        try fill(&buffer, 1_000_000, total: total)
        #expect(buffer.count == 1_000_000 && memory.bytesInUse == 0 && isEmpty)
        let data = try buffer.data()
        #expect(SpoolFile.bytes(of: data) == 1_000_000)
        #expect(data == Self.body)
        SpoolFile.releasePages(of: data)
        #expect(data == Self.body, "read again")
        #expect(SpoolFile.bytes(of: Self.body) == 0)
    }

    @Test(arguments: [nil, 90_000]) func aSmallBodyIsInMemory(_ total: Int?) throws {
        func data() throws -> Data {
            var buffer = BodyBuffer(spool())
            try fill(&buffer, 90_000, total: total)
            return try buffer.data()
        }
        do {
            let small = try data()
            #expect(small == Self.body.prefix(90_000) && SpoolFile.bytes(of: small) == 0)
            #expect((90_000...100_000).contains(memory.bytesInUse), "for as long as a caller holds it")
        }
        #expect(memory.bytesInUse == 0)
    }

    @Test func manySmallBodiesAreInFilesToo() throws {
        var kept: [Data] = []
        for _ in 0..<5 {
            var buffer = BodyBuffer(spool())
            try fill(&buffer, 90_000, total: 90_000)
            kept.append(try buffer.data())
        }
        #expect(kept.allSatisfy { $0 == Self.body.prefix(90_000) })
        #expect(kept.map { SpoolFile.bytes(of: $0) > 0 } == [false, false, true, true, true])
        #expect(memory.bytesInUse == 180_000)
    }

    @Test func aSnapshotStaysWhileMoreComes() throws {
        for count in [32_000, 320_000] {
            var buffer = BodyBuffer(spool())
            try fill(&buffer, count, total: nil)
            let snapshot = buffer.snapshot
            try buffer.append(Data(count: 16_000), total: nil)
            #expect(snapshot == Self.body.prefix(count))
            #expect(try buffer.data() == Self.body.prefix(count) + Data(count: 16_000))
        }
    }

    @Test func aBodyThatCameAsAWholeIsNotCopied() throws {
        var buffer = BodyBuffer(spool())
        try buffer.append(Self.body, total: 1_000_000)
        #expect(try buffer.data() == Self.body && memory.bytesInUse == 0)
        try buffer.append(Data([1]), total: 1_000_000)
        #expect(try buffer.data() == Self.body + Data([1]))
    }

    @Test func withoutADirectoryBodiesAreInMemory() throws {
        let spool = BodySpool(threshold: 10, directory: "/no/such", memory: memory)
        var buffer = BodyBuffer(spool)
        try fill(&buffer, 500_000, total: nil)
        #expect(try buffer.data() == Self.body.prefix(500_000))
        #expect(memory.bytesInUse == 0, "it is not among those that are counted")
    }

    /// /dev/full fails every write with `ENOSPC`.
    @Test func aFullDiskIsAnErrorThatMayPass() throws {
        var spool = self.spool()
        spool.open = { SpoolFile(descriptor: open("/dev/full", O_RDWR | O_CLOEXEC), directory: "/full") }
        var buffer = BodyBuffer(spool)
        let error = #expect(throws: ImagePipeline.Error.self) { try fill(&buffer, 1_000_000, total: nil) }
        #expect(error?.code == .diskFull && error?.isRetryable == true)
        #expect(error?.message.contains("/full: No space left") == true && error?.message.contains("TMPDIR") == true)
        let request = URLRequest(url: TestPipeline.url)
        var download = ResumableDownload(request, resuming: nil, spool: spool)
        let url = TestPipeline.url
        let response = URLResponse(url: url, mimeType: nil, expectedContentLength: -1, textEncodingName: nil)
        let goesOn = [50_000, 90_000].map { download.receive(Self.body.prefix($0), response) }
        #expect(goesOn == [true, false])
        #expect(download.failure?.code == .diskFull)
        #expect(OriginOutcome(.init(.diskFull, "")) == .none, "it is no fault of the origin's")
    }

    // MARK: - In a pipeline

    @Test func aDownloadIsSpooledAndRendered() async throws {
        let image = TestImage.quarters(width: 512, height: 512, seed: 1)
        try #require(image.count > 1000)
        let loader = HeldLoader(image)
        let pipeline = TestPipeline.make(loader) {
            $0.maximumBodyInMemory = 1000
            $0.temporaryDirectory = URL(fileURLWithPath: directory.path)
            $0.dataCache = MemoryDataCache()
        }
        let rendition = Rendition(width: 8, format: .png)
        async let made = pipeline.renditions([rendition], for: ImageRequest(url: TestPipeline.url))
        await loader.requests.wait(for: 1)
        loader.send(image.prefix(700))
        loader.send(image.dropFirst(700))
        loader.finish(0)
        #expect(try await made.first?.size.width == 8)
        #expect(try await pipeline.data(for: TestPipeline.url).data == image, "it was stored as it came")
        #expect(loader.requests.count == 1 && pipeline.configuration.memoryBudget.counts.waiting == 0)
    }

    @Test func aLocalFileIsSpooled() async throws {
        let path = try directory.write(Self.body, to: "a.bin")
        let access = FileAccess(roots: [directory.path])
        let data = try access.read(access.file(at: path), limit: 1_000_000, spool())
        #expect(data == Self.body && SpoolFile.bytes(of: data) == 1_000_000)
        let small = try access.read(access.file(at: path), limit: 1_000_000, spool(2_000_000))
        #expect(small == Self.body && SpoolFile.bytes(of: small) == 0)
    }

    // MARK: - Copies

    @Test func copiesShareTheMemoryOfRenders() async throws {
        let budget = MemoryBudget(bytes: 700_000)
        let gate = CopyGate(budget, threshold: 100_000)
        let other = RenderCost(bytes: 200_000, isBuffered: false)
        #expect(try budget.tryAcquire(other))
        let (large, huge) = (Self.body.prefix(200_000), Self.body)
        let order = TestLog<Int>()
        await gate.perform(Self.body.prefix(1000)) { order.append(0) }
        async let first = gate.perform(large) { order.append(budget.counts.bytesInUse) }
        while budget.counts.waiting < 1, !Task.isCancelled { await Task.yield() }
        async let second = gate.perform(huge) { order.append(budget.counts.bytesInUse) }
        while budget.counts.waiting < 2, !Task.isCancelled { await Task.yield() }
        #expect(order.values == [0])
        budget.release(other)
        let areDone = await [first, second]
        #expect(areDone == [true, true])
        #expect(order.values == [0, 600_000, 700_000], "one after the other, and the huge one alone")
        #expect(budget.counts.bytesInUse == 0)
    }

    /// Fault: under a steady load of renders of a higher priority, a copy waited without end.
    @Test func aCopyGoesBeforeRendersOfAnyPriority() async throws {
        let budget = MemoryBudget(bytes: 600_000)
        let gate = CopyGate(budget, threshold: 100_000)
        let all = RenderCost(bytes: 600_000, isBuffered: false)
        #expect(try budget.tryAcquire(all))
        let order = TestLog<String>()
        async let render: Void = {
            try await budget.acquire(all, priority: .high)
            order.append("render")
            budget.release(all)
        }()
        while budget.counts.waiting < 1, !Task.isCancelled { await Task.yield() }
        async let copy = gate.perform(Self.body.prefix(200_000)) { order.append("copy") }
        while budget.counts.waiting < 2, !Task.isCancelled { await Task.yield() }
        budget.release(all)
        let isDone = await copy
        try await render
        #expect(isDone)
        #expect(order.values == ["copy", "render"])
    }

    @Test func aCancelledTaskCopiesNothing() async throws {
        let budget = MemoryBudget(bytes: 300_000)
        let gate = CopyGate(budget, threshold: 100_000)
        let all = RenderCost(bytes: 300_000, isBuffered: false)
        #expect(try budget.tryAcquire(all))
        let task = Task { await gate.perform(Self.body) { Issue.record("no caller waits any more") } }
        while budget.counts.waiting < 1, !Task.isCancelled { await Task.yield() }
        task.cancel()
        #expect(await !task.value)
        budget.release(all)
        #expect(budget.counts == MemoryBudget.Counts(waited: 1))
    }

    @Test func bytesOfAFileAreAPartOfARendersCost() {
        let cost = RenderCost(bytes: 100, isBuffered: true)
        #expect(cost.adding(50, within: 1000) == RenderCost(bytes: 150, isBuffered: true))
        #expect(cost.adding(5000, within: 1000).bytes == 1000)
        #expect(
            RenderCost(bytes: 2000, isBuffered: false).adding(50, within: 1000).bytes == 2000,
            "never fits, as before"
        )
        #expect(cost.adding(.max, within: 1000).bytes >= 100)
    }
}
