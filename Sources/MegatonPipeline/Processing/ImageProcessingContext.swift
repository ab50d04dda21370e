/// For whom a picture is processed.
public struct ImageProcessingContext: Sendable {
    public var request: ImageRequest
    /// Of the unprocessed picture.
    public var response: ImageResponse
    /// False for previews.
    public var isCompleted: Bool

    public init(request: ImageRequest, response: ImageResponse, isCompleted: Bool) {
        self.request = request
        self.response = response
        self.isCompleted = isCompleted
    }
}
