@testable import MegatonPipeline

/// Ends when others of its kind have begun.
struct MeetingProcessor: ImageProcessing {
    let meeting: Meeting

    var identifier: String { "test/meeting" }

    func process(_ image: PlatformImage) -> PlatformImage? {
        meeting.join()
        return image
    }
}
