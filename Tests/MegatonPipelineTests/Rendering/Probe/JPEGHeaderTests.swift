import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The fast parser of JPEG headers agrees with libvips.
@Suite struct JPEGHeaderTests {
    private static let jpeg = Result { try TestPicture.jpeg(24, 16) }

    private func probe(_ data: Data) throws -> ImageProbe {
        try #require(JPEGHeader(data)).probe
    }

    /// Compares without the planes, which libvips does not report.
    private func expectAgreement(_ data: Data, _ what: Comment) throws {
        guard var ours = JPEGHeader(data)?.probe else { return }
        ours.planes = nil
        #expect(try VipsEngine().probe(data, type: .jpeg) == ours, what)
    }

    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"))
    func itReturnsWhatLibvipsReturns() throws {
        let all = FileManager.default.enumerator(atPath: Corpus.path(""))?.compactMap { $0 as? String } ?? []
        var count = 0
        for name in all.sorted() {
            guard let data = try? Corpus.data(name), AssetType(data) == .jpeg else { continue }
            // Files that libvips refuses are refused here later: decoding finds the same damage.
            guard (try? VipsEngine().probe(data, type: .jpeg)) != nil else { continue }
            try expectAgreement(data, "\(name)")
            if JPEGHeader(data) != nil { count += 1 }
        }
        #expect(count > 80)
    }

    @Test(arguments: 1...8, [true, false]) func orientationsAreRead(_ orientation: Int, _ isLittle: Bool) throws {
        let data = TestJPEG.inserting(
            TestJPEG.exif(orientation: orientation, isLittle: isLittle),
            into: try Self.jpeg.get()
        )
        #expect(try probe(data).orientation == orientation)
        try expectAgreement(data, "\(orientation)")
    }

    @Test(arguments: [false, true]) func progressiveIsSeen(_ progressive: Bool) throws {
        let data = try TestPicture.jpeg(24, 16, progressive: progressive)
        #expect(try probe(data).isProgressive == progressive)
        try expectAgreement(data, "\(progressive)")
    }

    @Test(arguments: TestSampling.allCases, [(24, 16), (23, 15), (1, 1)])
    func samplingsAreRead(_ sampling: TestSampling, _ size: (Int, Int)) throws {
        let data = try sampling.jpeg(size.0, size.1) { _, _ in (200, 90, 30) }
        let expected: ChromaSampling? =
            switch sampling {
            case .s444: .s444
            case .s422: .s422
            case .s420: .s420
            case .s440, .s411: nil
            }
        #expect(try probe(data).planes == expected)
        try expectAgreement(data, "\(sampling)")
    }

    /// Unusual headers are left to libvips.
    @Test func unusualHeadersAreLeftToLibvips() throws {
        let jpeg = try Self.jpeg.get()
        let exif = TestJPEG.exif(orientation: 6)
        let icc = Data(TestProfile.srgb)
        let unusual: [(String, Data)] = [
            ("two EXIF", TestJPEG.inserting(exif + exif, into: jpeg)),
            (
                "EXIF of another kind",
                TestJPEG.inserting(TestJPEG.segment(0xE1, Data("Exif\0X".utf8)) + exif, into: jpeg)
            ),
            (
                "a profile of grey",
                TestJPEG.inserting(TestJPEG.profile(Data(TestProfile.profile(space: "GRAY"))), into: jpeg)
            ),
            ("an orientation of 9", TestJPEG.inserting(TestJPEG.exif(orientation: 9), into: jpeg)),
            ("an orientation of 0", TestJPEG.inserting(TestJPEG.exif(orientation: 0), into: jpeg)),
            ("a long orientation", TestJPEG.inserting(TestJPEG.exif(orientation: 6, kind: 4), into: jpeg)),
            (
                "EXIF without a directory",
                TestJPEG.inserting(TestJPEG.segment(0xE1, Data("Exif\0\0MM".utf8)), into: jpeg)
            ),
            ("Adobe's RGB", TestJPEG.inserting(TestJPEG.adobe(transform: 0), into: jpeg)),
            ("the second part of a profile", TestJPEG.inserting(TestJPEG.profile(icc, part: 2, of: 2), into: jpeg)),
            ("one of two parts", TestJPEG.inserting(TestJPEG.profile(icc, part: 1, of: 2), into: jpeg)),
            ("no profile", TestJPEG.inserting(TestJPEG.profile(Data(count: 200)), into: jpeg)),
            ("bytes between segments", jpeg.prefix(2) + [0] + jpeg.dropFirst(2)),
            ("a segment without an end", jpeg.prefix(2) + [0xFF, 0xE5, 0xFF, 0xFF] + jpeg.dropFirst(2)),
            ("a segment of one byte", jpeg.prefix(2) + [0xFF, 0xE5, 0, 1] + jpeg.dropFirst(2)),
            ("arithmetic coding", Self.replacingFrame(jpeg, 0xC9)), ("no loss", Self.replacingFrame(jpeg, 0xC3)),
            ("two frames", TestJPEG.inserting(Self.frame(of: jpeg), into: jpeg)),
            ("nothing", Data()), ("a beginning", jpeg.prefix(3)),
        ]
        for (what, data) in unusual { #expect(JPEGHeader(data) == nil, "\(what)") }
    }

    @Test func truncatedHeadersAreLeftToLibvips() throws {
        let jpeg = try Self.jpeg.get()
        let scan = try #require(jpeg.indices.first { jpeg[$0] == 0xFF && jpeg[$0 + 1] == 0xDA })
        for length in 0..<scan { #expect(JPEGHeader(jpeg.prefix(length)) == nil, "\(length)") }
    }

    @Test func aProfileInPartsIsJoined() throws {
        let (first, second) = (TestProfile.srgb.prefix(100), TestProfile.srgb.dropFirst(100))
        let parts = TestJPEG.profile(Data(first), part: 1, of: 2) + TestJPEG.profile(Data(second), part: 2, of: 2)
        let probe = try probe(TestJPEG.inserting(parts, into: Self.jpeg.get()))
        #expect(probe.hasRGBProfile && probe.planes != nil)
    }

    /// Only sRGB colors can be passed on unchanged.
    @Test func otherColoursHaveNoPlanes() throws {
        let wide = try probe(TestJPEG.inserting(TestJPEG.profile(Data(TestProfile.p3)), into: Self.jpeg.get()))
        #expect(wide.hasRGBProfile && wide.planes == nil)
        let usual = try probe(TestJPEG.inserting(TestJPEG.adobe(transform: 1), into: Self.jpeg.get()))
        #expect(usual.planes == .s444)
    }

    /// Components named R, G and B without further information are taken as RGB, as libjpeg does.
    @Test func componentsAreWhatTheyAreCalled() throws {
        let usual = TestJPEG.removing(0xE0, from: try Self.jpeg.get())
        let named = try Self.named(Array("RGB".utf8), usual)
        #expect(try probe(usual).planes == .s444)
        #expect(JPEGHeader(named) == nil)
        #expect(try PixelReader(named).distance(to: PixelReader(usual)) > 10)
        let jfif = TestJPEG.segment(0xE0, Data("JFIF\0".utf8) + [1, 2, 0, 0, 1, 0, 1, 0, 0])
        for segment in [jfif, TestJPEG.adobe(transform: 1)] {
            let told = TestJPEG.inserting(segment, into: named)
            #expect(try probe(told).planes == .s444)
            #expect(try PixelReader(told).distance(to: PixelReader(usual)) == 0)
        }
    }

    /// The same JPEG with other IDs for its three components.
    private static func named(_ names: [UInt8], _ jpeg: Data) throws -> Data {
        var jpeg = jpeg
        let frame = start(of: jpeg)
        let scan = try #require(jpeg.indices.dropLast().first { jpeg[$0] == 0xFF && jpeg[$0 + 1] == 0xDA })
        for (index, name) in names.enumerated() {
            jpeg[frame + 10 + 3 * index] = name
            jpeg[scan + 5 + 2 * index] = name
        }
        return jpeg
    }

    private static func start(of jpeg: Data) -> Int {
        jpeg.indices.dropLast().first { jpeg[$0] == 0xFF && jpeg[$0 + 1] == 0xC0 } ?? jpeg.startIndex
    }

    private static func frame(of jpeg: Data) -> Data {
        let start = start(of: jpeg)
        return jpeg[start..<(start + 2 + Int(jpeg[start + 2]) << 8 + Int(jpeg[start + 3]))]
    }

    private static func replacingFrame(_ jpeg: Data, _ marker: UInt8) -> Data {
        var jpeg = jpeg
        jpeg[start(of: jpeg) + 1] = marker
        return jpeg
    }
}
