import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Previews of unfinished downloads.
@Suite(.timeLimit(.minutes(2))) struct PreviewTests {
    private func previews(
        _ data: Data,
        _ policy: ImagePipeline.PreviewPolicy? = nil,
        parts: Int = 40,
        thumbnail: ImageRequest.ThumbnailOptions? = nil
    ) -> [ImageContainer] {
        let decoder = ImageDecoders.Default(thumbnail: thumbnail, previewPolicy: policy)
        return (1...parts).compactMap { decoder.decodePartiallyDownloadedData(data.prefix(data.count * $0 / parts)) }
    }

    @Test func eachScanOfAProgressiveJPEGIsShownOnce() throws {
        let data = try TestPicture.jpeg(320, 240, progressive: true)
        let previews = previews(data)
        let numbers = previews.compactMap { $0.userInfo[ImageDecoders.Default.scanNumberKey] as? Int }
        #expect(numbers.count == previews.count && numbers.count >= 3)
        #expect(numbers == Array(Set(numbers)).sorted() && numbers.first == 1, "\(numbers)")
        for preview in previews {
            #expect(preview.isPreview && preview.type == .jpeg)
            #expect(preview.image.size == PixelSize(width: 320, height: 240))
        }
        // The last one is nearly the final image.
        let whole = try ImageDecoders.Default().decode(data).image.pixels()
        let last = try #require(previews.last).image.pixels()
        let distance = zip(whole, last).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) } / whole.count
        #expect(distance < 16, "\(distance)")
    }

    // Fault: a body that ended within the header of a scan could not be decoded, and yet the scan counted as shown.
    @Test func aScanCutOffInItsHeaderIsShownLater() throws {
        let scans = try TestPicture.scans(of: TestPicture.jpeg(320, 240, progressive: true))
        let decoder = ImageDecoders.Default()
        #expect(decoder.decodePartiallyDownloadedData(scans[0].dropLast()) == nil)
        #expect(decoder.decodePartiallyDownloadedData(scans[0]) != nil)
        #expect(decoder.decodePartiallyDownloadedData(scans[0] + scans[1].dropLast()) == nil)
        #expect(decoder.decodePartiallyDownloadedData(scans[0] + scans[1]) != nil)
    }

    // Fault: the gate was open before a preview was delivered, so that the next one could overtake it.
    @Test func previewsAreShownInTheirOrder() {
        let gate = PreviewGate<Int>()
        var shown: [String] = []
        func show(_ number: Int) {
            shown.append("begin \(number)")
            // Two more are made while the first is being delivered.
            if number == 1 {
                for other in [2, 3] {
                    #expect(gate.enter())
                    gate.leave(other) { _ in Issue.record("shown out of turn") }
                }
            }
            shown.append("end \(number)")
        }
        #expect(gate.enter())
        #expect(!gate.enter(), "one at a time")
        gate.leave(1) { show($0) }
        #expect(shown == ["begin 1", "end 1", "begin 3", "end 3"], "the newest takes the place of one that waits")
        #expect(gate.enter())
        gate.leave(nil) { show($0) }
        #expect(gate.enter())
        gate.leave(4) { show($0) }
        #expect(shown.suffix(2) == ["begin 4", "end 4"])
        gate.end()
        #expect(!gate.enter())
    }

    @Test func thePolicyDecidesForOthers() throws {
        let data = try TestPicture.jpeg(320, 240)
        #expect(previews(data).isEmpty, "a baseline JPEG has no previews by default")
        let rows = previews(data, .incremental)
        #expect(rows.count > 10)
        let first = try #require(rows.first).image
        #expect(first.size == PixelSize(width: 320, height: 240))
        #expect(previews(try TestPicture.jpeg(320, 240, progressive: true), .disabled).isEmpty)
        #expect(ImagePipeline.PreviewPolicy.default(for: data) == .disabled)
        #expect(ImagePipeline.PreviewPolicy.default(for: Data()) == .disabled)
    }

    @Test func aCamerasThumbnailIsShownOnceAndUpright() throws {
        let small = try TestPicture.jpeg(40, 20)
        let data = TestEXIF.jpeg(try TestPicture.jpeg(800, 400), orientation: 6, thumbnail: small)
        let previews = previews(data, .thumbnail)
        #expect(previews.map(\.image.size) == [PixelSize(width: 20, height: 40)])
        #expect(previews.first?.isPreview == true)
        #expect(self.previews(try TestPicture.jpeg(80, 40), .thumbnail).isEmpty, "there is none in it")
    }

    @Test func previewsAreAsSmallAsTheThumbnail() throws {
        let data = try TestPicture.jpeg(320, 240, progressive: true)
        let sizes = Set(previews(data, thumbnail: .init(maxPixelSize: 32)).map(\.image.size))
        #expect(sizes == [PixelSize(width: 32, height: 24)])
    }

    @Test func nothingIsShownOfOthersNorOfDamage() throws {
        #expect(previews(TestImage.quarters(width: 64, height: 64), .incremental).isEmpty)
        #expect(previews(Data("<html>".utf8), .incremental).isEmpty)
        #expect(previews(Data([0xFF, 0xD8, 0xFF, 0xDA]) + Data(count: 400), .incremental).isEmpty)
        let few = ImageDecoders.Default(types: [.png], previewPolicy: .incremental)
        #expect(few.decodePartiallyDownloadedData(try TestPicture.jpeg(8, 8)) == nil)
    }

    @Test func previewsKeepTheLimits() throws {
        var limits = RenderLimits()
        limits.pixels = 100
        func preview(_ data: Data) -> ImageContainer? {
            let decoder = ImageDecoders.Default(limits: limits, previewPolicy: .incremental)
            return decoder.decodePartiallyDownloadedData(data)
        }
        #expect(try preview(TestPicture.jpeg(11, 10)) == nil)
        #expect(try preview(TestPicture.jpeg(10, 10)) != nil)
    }
}
