import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The scans of a progressive JPEG that a thumbnail needs.
@Suite(.timeLimit(.minutes(2))) struct JPEGScanPrefixTests {
    private static let large = Result { try TestPicture.jpeg(800, 600, progressive: true) }

    private func count(_ data: Data, _ needs: JPEGScanNeeds) -> Int? {
        data.withUnsafeBytes { JPEGScanPrefix($0, for: needs)?.count }
    }

    /// Offsets of the scans.
    private func scans(_ data: Data) -> [Int] {
        data.withUnsafeBytes { bytes in
            JPEGMarkers(bytes).filter { $0.marker == JPEGMarkers.startOfScan }.map(\.start)
        }
    }

    /// libjpeg's usual script: all first coefficients, luma 1 to 5, both chromas, and then the rest.
    @Test func theUsualScriptIsCutBehindTheFirstScans() throws {
        let data = try Self.large.get()
        let starts = scans(data)
        try #require(starts.count == 10)
        let eighth = try #require(count(data, .eighth))
        let quarter = try #require(count(data, .quarter))
        #expect(starts[0] < eighth && eighth <= starts[1])
        #expect(starts[3] < quarter && quarter <= starts[4])
        // The marker of the next segment follows.
        #expect(data[eighth] == 0xFF && data[quarter] == 0xFF)
    }

    @Test func aScanThatIsNotOverIsNotEnough() throws {
        let data = try Self.large.get()
        let quarter = try #require(count(data, .quarter))
        #expect(count(data.prefix(quarter), .quarter) == nil)
        #expect(count(data.prefix(quarter + 4), .quarter) == quarter)
        for length in 0..<700 { #expect(count(data.prefix(length), .eighth) == nil) }
    }

    @Test func otherJPEGsAreReadCompletely() throws {
        let baseline = try TestPicture.jpeg(800, 600)
        #expect(count(baseline, .eighth) == nil && count(baseline, .quarter) == nil)
        #expect(count(Data(), .eighth) == nil && count(Data([0xFF, 0xD8, 0xFF]), .eighth) == nil)
    }

    /// Scans that leave more low bits to later ones do not count.
    @Test func precisionCounts() throws {
        var data = try Self.large.get()
        let first = try #require(scans(data).first)
        // The last byte of the header of a scan of three components (ITU-T T.81 annex B.2.3).
        let approximation = first + 4 + 1 + 6 + 2
        #expect(data[approximation] & 15 == 1)
        data[approximation] = 2
        let cut = try #require(count(data, .eighth))
        #expect(cut > scans(data)[5], "the scan that adds the missing bit is needed")
    }

    private func render(
        _ data: Data,
        _ rendition: Rendition,
        _ failOn: Rendition.FailOn? = nil,
        _ engine: RenderEngineChoice = .auto
    ) throws(ImagePipeline.Error) -> EncodedImage {
        try DamageTests.render(data, rendition, engine, failOn)
    }

    /// Damage behind the scans that a thumbnail needs is not judged, unless the rendition refuses all damage.
    @Test func damageBehindTheNeededScansIsTolerated() throws {
        let data = try Self.large.get()
        let quarter = try #require(count(data, .quarter))
        let whole = try render(data, Rendition(width: 80))
        for cut in [data.prefix(quarter + 200), data.prefix(quarter + 200) + [0xFF, 0xD9]] {
            for level in [nil, Rendition.FailOn.nothing, .truncated] {
                let image = try render(cut, Rendition(width: 80), level)
                #expect(image.data == whole.data && image.maker == .planes && image.notes.isEmpty)
            }
            for level in [Rendition.FailOn.error, .warning] {
                #expect(throws: ImagePipeline.Error.self) { try render(cut, Rendition(width: 80), level) }
            }
            let faithful = Rendition(width: 80, qualityProfile: .faithful)
            #expect(throws: ImagePipeline.Error.self) { try render(cut, faithful) }
            #expect(throws: ImagePipeline.Error.self) { try render(cut, Rendition(width: 400)) }
            #expect(throws: ImagePipeline.Error.self) { try render(cut, Rendition(width: 80), nil, .vips) }
        }
    }

    /// Peak signal-to-noise ratio between the luma of the thumbnails of the needed scans and of all scans, in dB.
    private func likeness(_ data: Data, _ rendition: Rendition) throws -> Double {
        func luma(_ failOn: Rendition.FailOn) throws -> Plane {
            var rendition = rendition
            // Levels that refuse all damage read all scans.
            rendition.failOn = failOn
            let plan = RenderPlan(try #require(JPEGHeader(data)).probe, [rendition])
            #expect(plan.hasNeededScans(plan.passes[0], in: data) == (failOn == .truncated))
            let engine = PlanesEngine()
            return try #require(engine.load(plan, data).flatMap { engine.scale($0, plan) }).planes[0]
        }
        let (cut, whole) = (try luma(.truncated), try luma(.error))
        var sum = 0
        for y in 0..<whole.height {
            for x in 0..<whole.width {
                let difference = Int(cut.bytes[y * cut.stride + x]) - Int(whole.bytes[y * whole.stride + x])
                sum += difference * difference
            }
        }
        let mean = Double(sum) / Double(whole.width * whole.height)
        return mean == 0 ? .infinity : 10 * log10(255 * 255 / mean)
    }

    @Test(arguments: [60, 80, 95]) func theThumbnailLooksTheSame(_ width: Int) throws {
        for profile in [Rendition.QualityProfile.balanced, .fast] {
            let decibels = try likeness(Self.large.get(), Rendition(width: width, qualityProfile: profile))
            #expect(decibels > 45, "\(profile): \(decibels)")
        }
    }

    /// Progressive photographs of other programs. JPEG of quality 80 itself costs 33 dB.
    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"))
    func photographsLookTheSame() async throws {
        let compared = TestLog<String>()
        let all = FileManager.default.enumerator(atPath: Corpus.path(""))?.compactMap { $0 as? String } ?? []
        try await inPairs(all.sorted().filter { !$0.hasPrefix("bad/") }) { name in
            guard let data = try? Corpus.data(name), AssetType(data) == .jpeg, let header = JPEGHeader(data),
                header.isProgressive, header.probe.planes != nil, min(header.size.width, header.size.height) > 160
            else { return }
            for scale in [9, 17] {
                let rendition = Rendition(width: header.probe.uprightSize.width / scale)
                let plan = RenderPlan(header.probe, [rendition])
                guard plan.hasNeededScans(plan.passes[0], in: data) else { return }
                compared.append(name)
                let decibels = try likeness(data, rendition)
                #expect(decibels > 43, "\(name) by \(scale): \(decibels)")
            }
        }
        #expect(compared.count > 3)
    }
}
