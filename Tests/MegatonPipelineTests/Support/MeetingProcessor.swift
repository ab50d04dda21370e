@testable import MegatonPipeline
@testable import MegatonRendering

/// Ends once other processors of the same meeting have started.
struct MeetingProcessor: ImageProcessing {
    let meeting: Meeting

    var identifier: String { "test/meeting" }

    func process(_ image: PlatformImage) -> PlatformImage? {
        meeting.join()
        return image
    }
}
