/// The request that an image is processed for, and the limits that apply.
public struct ImageProcessingContext: Sendable {
    /// The request of the image.
    public var request: ImageRequest
    /// Response with the unprocessed image.
    public var response: ImageResponse
    /// False for previews.
    public var isCompleted: Bool
    /// Limits for the size of results and for the time.
    let bounds: ProcessingBounds

    /// Creates a context outside of a pipeline. It is never cancelled, and its time starts now.
    ///
    /// - Parameter limits: Limits for the size of results and for the time.
    public init(
        request: ImageRequest,
        response: ImageResponse,
        isCompleted: Bool,
        limits: RenderLimits = RenderLimits()
    ) {
        self.init(request: request, response: response, isCompleted: isCompleted, bounds: ProcessingBounds(limits))
    }

    init(request: ImageRequest, response: ImageResponse, isCompleted: Bool, bounds: ProcessingBounds) {
        self.request = request
        self.response = response
        self.isCompleted = isCompleted
        self.bounds = bounds
    }

    /// The pipeline's limits. A result above `outputSide` or `outputPixels` fails with `.outputTooLarge`.
    public var limits: RenderLimits { bounds.limits }

    /// Whether the time limit has passed or the request was cancelled. Long-running processors should poll it, because
    /// they are not interrupted from outside.
    public var mustEnd: Bool { bounds.deadline.isExpired }

    /// The same check, for processors that throw.
    ///
    /// - Throws: `.renderTimedOut`, `.cancelled`.
    public func checkTime() throws(ImageError) { try bounds.checkTime() }
}
