import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Damaged and hostile files as a whole, through the renderer.
@Suite(.timeLimit(.minutes(2))) struct HostileHEIFTests {
    private static let refused: [String: Set<ImagePipeline.Error.Code>] = [
        "iden-cycle2.avif": [.corruptImage], "iovl-fan10x40.avif": [.imageTooLarge, .headerTooLarge],
        "ispe-lies-16384.avif": [.imageTooLarge], "metabomb-20items-32x1MB.avif": [.headerTooLarge],
        "items-20k.avif": [.headerTooLarge],
    ]

    /// Each takes at most two seconds, although some crashed libheif, or took gigabytes or half a minute there.
    @Test(.enabled(if: Hostile.isThere, "the hostile files are not there; set MEGATON_HOSTILE"))
    func handMadeFilesAreRenderedOrRefused() async throws {
        for name in Hostile.names(["avif", "heic"]) {
            let data = try Hostile.data(name)
            let start = ContinuousClock.now
            let failure = await TestPipeline.failure { try await TestHEIF.render(data) }
            #expect(start.duration(to: .now) < .seconds(2), "\(name)")
            if let codes = Self.refused[name] {
                #expect(failure.map { codes.contains($0.code) } == true, "\(name): \(String(describing: failure))")
            } else {
                #expect(failure == nil, "\(name)")
            }
        }
    }

    /// A file that is cut anywhere is refused with a reason, before libheif reads it.
    @Test func filesCutShortAnywhereAreRefused() throws {
        var file = TestHEIF.plain(try TestHEIF.Picture(64, 64))
        file.items[0].id = 5
        file.add(1, "grid", properties: [2], blob: file.add(blob: HEIFWriter.grid(rows: 1, columns: 1, 64, 64)))
        file.references.append(.init("dimg", 1, [5]))
        let data = file.data()
        #expect(TestHEIF.error(data) == nil)
        for length in 0..<data.count {
            let error = TestHEIF.error(data.prefix(length))
            #expect(error?.code == .corruptImage && error?.message.isEmpty == false, "\(length) of \(data.count)")
        }
    }

    @Test func aFileThatCanBeReadInTwoWaysIsRefused() throws {
        let picture = try TestHEIF.Picture(64, 64)
        let plain = TestHEIF.plain(picture)
        let data = plain.data()
        let meta = try #require(data.range(of: Data("meta".utf8))).lowerBound - 4
        let length = data[meta..<meta + 4].reduce(0) { $0 << 8 | Int($1) }
        #expect(TestHEIF.error(data + data[meta..<meta + length])?.code == .corruptImage, "two boxes meta")
        var twice = plain
        twice.add(1, "av01", properties: [1, 2], blob: 0)
        #expect(TestHEIF.code(twice) == .corruptImage, "two items of one number")
        for type in ["pitm", "iloc", "iinf", "iref", "iprp", "idat", "ipco", "infe", "meta"] {
            var file = plain
            if type == "iref" || type == "idat" { file.extras.append(HEIFWriter.box(type, Data())) }
            file.extras.append(HEIFWriter.box(type, Data(count: type == "iref" ? 4 : 8)))
            #expect(TestHEIF.code(file) == .corruptImage, "\(type)")
        }
        #expect(TestHEIF.error(data + HEIFWriter.box("iloc", Data(count: 8)))?.code == .corruptImage)
        #expect(TestHEIF.error(data + HEIFWriter.box("free", Data(count: 8))) == nil)
        #expect(TestHEIF.error(data + [1, 2, 3]) == nil, "bytes behind the last box")
    }

    @Test func sizesAndPlacesBeyondTheEndAreRefused() throws {
        let picture = try TestHEIF.Picture(64, 64)
        for (offset, length) in [(0, 1 << 40), (1 << 40, 1), (Int.max, Int.max), (Int.max - 10, 5), (-1, 1), (1, -1)] {
            var file = TestHEIF.plain(picture)
            file.items[0].extents = [.init(blob: nil, offset: offset, length: length)]
            #expect(TestHEIF.code(file) == .corruptImage)
        }
        for size in [0, 1, 7, 1 << 31, Int(UInt32.max)] {
            var file = TestHEIF.plain(picture)
            file.extras = [HEIFWriter.big(size, 4) + Data("free".utf8)]
            #expect(TestHEIF.code(file) == .corruptImage, "\(size)")
        }
        for size in [15, 1 << 40, Int.max, -1] {
            var file = TestHEIF.plain(picture)
            file.extras = [HEIFWriter.big(1, 4) + Data("free".utf8) + HEIFWriter.big(size, 8)]
            #expect(TestHEIF.code(file) == .corruptImage, "\(size)")
        }
    }

    /// The error gives the limit as the reason, and not libheif's message.
    @Test func limitsAreTheReasonOfSizesThatLibheifRefuses() async throws {
        let large = TestHEIF.coded(
            "av01",
            TestStream.av1C,
            TestStream.av1Sequence(17_000, 17_000) + TestStream.av1Still,
            says: PixelSize(width: 17_000, height: 17_000)
        )
        #expect(await TestPipeline.code { try await TestHEIF.render(large.data()) } == .sideTooLong)
    }

    /// Real files are not affected.
    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"))
    func realFilesAreNotRefused() throws {
        let names = FileManager.default.enumerator(atPath: Corpus.path("edge"))?.compactMap { $0 as? String } ?? []
        var count = 0
        for name in names.sorted() {
            // Folders are among the names too.
            guard let data = try? Corpus.data("edge/\(name)"), let type = AssetType(data), type.isHEIF else { continue }
            count += 1
            #expect(TestHEIF.error(data) == nil, "\(name)")
        }
        #expect(count > 10)
    }

    // MARK: - Time

    /// Accepts any header.
    private struct Quick: RenderEngine {
        func probe(_ data: Data, type: AssetType) throws(ImagePipeline.Error) -> ImageProbe {
            ImageProbe(type: type, width: 8, height: 8, bands: 3, frames: 1, orientation: 1, isProgressive: false)
        }

        func render(
            _ pass: RenderPlan.Pass,
            of plan: RenderPlan,
            from data: Data,
            deadline: RenderDeadline
        ) throws(ImagePipeline.Error) -> [EncodedImage] { [] }

        func image(
            _ plan: RenderPlan,
            _ data: Data,
            deadline: RenderDeadline
        ) throws(ImagePipeline.Error) -> PlatformImage {
            throw ImagePipeline.Error(.corruptImage, "…")
        }
    }

    /// Fault: a header took 36 s of a render that may take 30 s, and the job ended as done.
    @Test func theHeaderHasTheTimeOfTheRender() async {
        func code(_ time: Duration) async -> ImagePipeline.Error.Code? {
            var limits = RenderLimits()
            limits.time = time
            let renderer = Renderer(
                engine: Quick(),
                limits: limits,
                types: AssetType.supported,
                threads: ThreadPool(name: "test", count: 1, onThreadExit: VipsRuntime.endThread)
            )
            return await TestPipeline.code {
                try await renderer.render([Rendition(width: 2)], from: TestPipeline.png, context: "a")
            }
        }
        #expect(await code(.zero) == .renderTimedOut)
        #expect(await code(.seconds(30)) == nil)
    }
}
