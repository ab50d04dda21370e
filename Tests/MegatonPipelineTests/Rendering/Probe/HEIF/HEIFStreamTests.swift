import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The sizes in AV1 and HEVC streams, compared with the sizes that their files declare.
@Suite(.timeLimit(.minutes(2))) struct HEIFStreamTests {
    private func av1(_ units: [Data], says size: PixelSize, configuration: Data = TestStream.av1C) -> HEIFWriter {
        TestHEIF.coded("av01", configuration, units.reduce(Data(), +), says: size)
    }

    private func hevc(_ units: [Data], says size: PixelSize, parameters: [Data]) -> HEIFWriter {
        TestHEIF.coded("hvc1", TestStream.hvcC(parameters), TestStream.hevc(units), says: size)
    }

    private static let small = PixelSize(width: 64, height: 64)
    private static let large = PixelSize(width: 16_384, height: 16_384)

    // MARK: - Real streams

    @Test(arguments: [(64, 64), (17, 333), (1000, 30)])
    func realStreamsSayTheirSize(_ width: Int, _ height: Int) throws {
        let demand = try TestHEIF.demand(TestHEIF.plain(TestHEIF.Picture(width, height)))
        #expect(demand.largest == PixelSize(width: width, height: height) && demand.lie == nil)
    }

    @Test func realStreamsInFilesThatLieAreRefused() async throws {
        let picture = try TestHEIF.Picture(400, 300)
        for said in [PixelSize(width: 64, height: 300), PixelSize(width: 400, height: 500)] {
            let failure = await TestPipeline.failure {
                try await TestHEIF.render(TestHEIF.plain(picture, says: said).data())
            }
            #expect(failure?.code == .corruptImage)
            #expect(failure?.message.contains("says that it has \(said) pixels (ispe)") == true)
            #expect(failure?.message.contains("400x300") == true)
        }
    }

    // MARK: - AV1

    /// Fault: the limits trusted `ispe`, and a file of 3.5 kB took 1.85 GB.
    @Test func theSizeInTheSequenceHeaderCounts() throws {
        let file = av1([TestStream.av1Sequence(16_384, 16_384), TestStream.av1Still], says: Self.small)
        let error = try #require(TestHEIF.error(file.data()))
        #expect(error.code == .imageTooLarge)
        #expect(error.message.contains("16384x16384") && error.message.contains("64x64"), "\(error)")
        let within = av1([TestStream.av1Sequence(4000, 4000), TestStream.av1Still], says: Self.small)
        #expect(TestHEIF.code(within) == .corruptImage)
        let wide = PixelSize(width: 128, height: 64)
        let smaller = av1([TestStream.av1Sequence(64, 64), TestStream.av1Still], says: wide)
        #expect(TestHEIF.code(smaller) == .corruptImage)
    }

    @Test func aFrameMayHaveASizeOfItsOwn() throws {
        let sequence = TestStream.av1Sequence(64, 64, isReduced: false)
        #expect(TestHEIF.code(av1([sequence, TestStream.av1Frame()], says: Self.small)) == nil)
        for type in [3, 6, 7] {
            let lie = av1([sequence, TestStream.av1Frame(size: (16_384, 16_384), type: type)], says: Self.small)
            #expect(TestHEIF.code(lie) == .imageTooLarge)
        }
        let second = av1([sequence, TestStream.av1Frame(), TestStream.av1Frame(size: (300, 64))], says: Self.small)
        #expect(TestHEIF.code(second) == .corruptImage)
    }

    /// In the configuration, at the beginning, and after the first frame.
    @Test func allSequenceHeadersCount() throws {
        let good = TestStream.av1Sequence(64, 64)
        let bad = TestStream.av1Sequence(16_384, 16_384)
        let configuration = HEIFWriter.box("av1C", Data([0x81, 0, 0x0C, 0]) + bad)
        for file in [
            av1([good, TestStream.av1Still], says: Self.small, configuration: configuration),
            av1([bad, good, TestStream.av1Still], says: Self.small),
            av1([good, TestStream.av1Still, bad, TestStream.av1Still], says: Self.small),
        ] { #expect(TestHEIF.code(file) == .imageTooLarge) }
    }

    /// A stream that is stored in pieces is joined, as the decoder reads it.
    @Test func extentsAreJoined() throws {
        let stream = TestStream.av1Sequence(16_384, 16_384) + TestStream.av1Still
        var file = av1([stream], says: Self.small)
        file.items[0].extents = (0..<stream.count).map { .init(blob: 0, offset: $0, length: 1) }
        #expect(TestHEIF.code(file) == .imageTooLarge)
    }

    @Test func depthAndFramesCountForMemory() throws {
        func bytes(_ units: [Data]) throws -> Int {
            try TestHEIF.demand(av1(units, says: PixelSize(width: 1000, height: 1000))).bytes
        }
        let plain = try bytes([TestStream.av1Sequence(1000, 1000), TestStream.av1Still])
        let deep = try bytes([TestStream.av1Sequence(1000, 1000, depth: 10), TestStream.av1Still])
        #expect(deep > plain * 3 / 2)
        let sequence = TestStream.av1Sequence(1000, 1000, isReduced: false)
        let frames = Array(repeating: TestStream.av1Frame(), count: 12)
        #expect(try bytes([sequence] + frames) > plain * 3 / 2)
        let huge = PixelSize(width: 7000, height: 7000)
        let many = Array(repeating: TestStream.av1Frame(), count: 16)
        let bomb = av1([TestStream.av1Sequence(7000, 7000, isReduced: false)] + many, says: huge)
        #expect(TestHEIF.code(bomb) == .tooCostly)
    }

    @Test func streamsWithoutAnImageAreDamaged() throws {
        let sequence = TestStream.av1Sequence(64, 64)
        for units in [[], [sequence], [TestStream.av1Still], [sequence.prefix(5)], [sequence, Data([0x32, 0x7F, 1])]] {
            #expect(TestHEIF.code(av1(units, says: Self.small)) == .corruptImage)
        }
        #expect(TestHEIF.code(TestHEIF.coded("av01", Data(), Data(), says: Self.small)) == .corruptImage)
    }

    @Test func otherCodecsAreNotRead() throws {
        for type in ["vvc1", "jpeg", "avc1", "unci"] {
            let file = TestHEIF.coded(type, TestStream.av1C, Data(count: 99), says: Self.small)
            #expect(TestHEIF.code(file) == .unsupportedFormat)
        }
    }

    // MARK: - HEVC

    @Test func theSizeInTheParametersOfASequenceCounts() throws {
        let good = TestStream.hevcParameters(64, 64)
        let bad = TestStream.hevcParameters(16_384, 16_384)
        #expect(TestHEIF.code(hevc([TestStream.hevcSlice], says: Self.small, parameters: [good])) == nil)
        for file in [
            hevc([TestStream.hevcSlice], says: Self.small, parameters: [bad]),
            hevc([TestStream.hevcSlice], says: Self.small, parameters: [good, bad]),
            hevc([bad, TestStream.hevcSlice], says: Self.small, parameters: [good]),
            hevc([TestStream.hevcSlice], says: Self.large, parameters: [bad]),
        ] { #expect(TestHEIF.code(file) == .imageTooLarge) }
        let lie = hevc([TestStream.hevcSlice], says: Self.small, parameters: [TestStream.hevcParameters(512, 512)])
        #expect(TestHEIF.code(lie) == .corruptImage)
        let none = hevc([good], says: Self.small, parameters: [good])
        #expect(TestHEIF.code(none) == .corruptImage, "no image")
    }

    /// Blocks are coded as a whole; a window defines the visible part.
    @Test func conformanceWindowsAreCutOff() throws {
        let parameters = TestStream.hevcParameters(1920, 1088, crop: (0, 8))
        let file = hevc(
            [TestStream.hevcSlice],
            says: PixelSize(width: 1920, height: 1080),
            parameters: [parameters]
        )
        let demand = try TestHEIF.demand(file)
        #expect(demand.lie == nil && demand.largest == PixelSize(width: 1920, height: 1088))
        let rounded = hevc(
            [TestStream.hevcSlice],
            says: PixelSize(width: 1920, height: 1080),
            parameters: [TestStream.hevcParameters(1920, 1088)]
        )
        #expect(TestHEIF.code(rounded) == nil)
    }

    @Test func sidesBeyondCountingDoNotEndTheProcess() throws {
        for side in [1 << 20, Int(UInt32.max) - 2] {
            let parameters = TestStream.hevcParameters(side, side)
            let file = hevc([TestStream.hevcSlice], says: Self.small, parameters: [parameters])
            #expect([.corruptImage, .sideTooLong].contains(TestHEIF.code(file)))
        }
    }

    // MARK: - Alpha

    private func withAlpha(_ units: [Data], says size: PixelSize) -> HEIFWriter {
        var file = av1([TestStream.av1Sequence(64, 64), TestStream.av1Still], says: Self.small)
        let alpha = file.add(property: HEIFWriter.auxC("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"))
        let ispe = file.add(property: HEIFWriter.ispe(size.width, size.height))
        file.add(2, "av01", properties: [1, ispe, alpha], blob: file.add(blob: units.reduce(Data(), +)))
        file.references.append(.init("auxl", 2, [1]))
        return file
    }

    @Test func anAlphaChannelIsMeasuredToo() throws {
        func stream(_ side: Int) -> [Data] { [TestStream.av1Sequence(side, side), TestStream.av1Still] }
        #expect(TestHEIF.code(withAlpha(stream(64), says: Self.small)) == nil)
        #expect(TestHEIF.code(withAlpha(stream(16_384), says: Self.small)) == .imageTooLarge)
        #expect(TestHEIF.code(withAlpha(stream(60), says: Self.small)) == .corruptImage, "rows would be missing")
        var cut = withAlpha(stream(64), says: Self.small)
        let clap = [64, 1, 64, 1, 1000, 1, 0, 1].reduce(Data()) { $0 + HEIFWriter.big($1, 4) }
        cut.items[1].properties.append(cut.add(property: HEIFWriter.box("clap", clap)))
        #expect(TestHEIF.code(cut) == .corruptImage, "nothing would be left of it")
        // libheif ignores an alpha image of another size.
        #expect(TestHEIF.code(withAlpha(stream(128), says: PixelSize(width: 128, height: 128))) == nil)
    }
}
