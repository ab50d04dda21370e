import Foundation
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Descriptions equal those of Nuke, for logs and for tests that were written for it.
@Suite struct DescriptionTests {
    private static let border = ImageProcessingOptions.Border(color: Color(red: 255, green: 0, blue: 0), width: 2)

    @Test(arguments: [
        (
            "\(ImageProcessors.Resize(width: 320, upscale: true))",
            "Resize(size: (320.0, 9999.0) pixels, contentMode: .aspectFit, crop: false, upscale: true)"
        ),
        (
            "\(ImageProcessors.Resize(size: CGSize(width: 30, height: 20), contentMode: .aspectFill, crop: true))",
            "Resize(size: (30.0, 20.0) pixels, contentMode: .aspectFill, crop: true, upscale: false)"
        ),
        ("\(ImageProcessors.Circle())", "Circle(border: nil)"),
        ("\(ImageProcessors.Circle(border: border))", "Circle(border: Border(color: #FF0000, width: 2.0 pixels))"),
        ("\(ImageProcessors.RoundedCorners(radius: 16))", "RoundedCorners(radius: 16.0 pixels, border: nil)"),
        ("\(ImageProcessors.GaussianBlur())", "GaussianBlur(radius: 8)"),
        ("\(ImageProcessors.Anonymous(id: "mine") { $0 })", "AnonymousProcessor(identifier: mine)"),
        (
            "\(ImageProcessors.Composition([ImageProcessors.Circle(), ImageProcessors.GaussianBlur(radius: 2)]))",
            "Composition(processors: [Circle(border: nil), GaussianBlur(radius: 2)])"
        ),
        ("\(ImageProcessingOptions.Unit.pixels)", "pixels"),
        ("\(ImageProcessingOptions.Unit.points(scale: 2))", "points"),
        ("\(ImageProcessingOptions.ContentMode.aspectFill)", ".aspectFill"),
    ]) func theyAreNukes(_ described: String, _ expected: String) {
        #expect(described == expected)
    }

    @Test func aTaskDescribesItsState() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let task = pipeline.imageTask(with: TestPipeline.url)
        #expect("\(task)" == "ImageTask(id: 1, priority: normal, progress: 0 / 0, state: running)")
        await loader.requests.wait(for: 1)
        loader.release()
        _ = try await task.image
        let count = TestPipeline.png.count
        #expect("\(task)" == "ImageTask(id: 1, priority: normal, progress: \(count) / \(count), state: success)")
        let cancelled = pipeline.imageTask(with: TestPipeline.url("b"))
        cancelled.cancel()
        #expect("\(cancelled)".hasSuffix("state: cancelled)"))
    }
}
