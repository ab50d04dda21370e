/// For whom a picture is processed, and within which limits.
public struct ImageProcessingContext: Sendable {
    public var request: ImageRequest
    /// Of the unprocessed picture.
    public var response: ImageResponse
    /// False for previews.
    public var isCompleted: Bool
    /// How large results may be, and when the work has to end.
    let bounds: ProcessingBounds

    /// A context of one's own: nobody cancels it, and its time begins now.
    ///
    /// - Parameter limits: of the results, and of the time.
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

    /// The pipeline's. A result that is over `outputSide` or `outputPixels` is refused with `.outputTooLarge`.
    public var limits: RenderLimits { bounds.limits }

    /// Whether the time is over, or nobody wants the result any more. To be asked now and then by what takes long: a
    /// processor is not stopped from outside.
    public var mustEnd: Bool { bounds.deadline.mustEnd }

    /// The same for processors that throw.
    ///
    /// - Throws: `.renderTimedOut`, `.cancelled`.
    public func checkTime() throws(ImagePipeline.Error) { try bounds.checkTime() }
}
