/// Limits of a processor: the size of its results and its deadline.
package struct ProcessingBounds: Sendable {
    package let limits: RenderLimits
    package let deadline: RenderDeadline

    /// Limits for a processor that is called without a pipeline. The time starts now.
    package init(_ limits: RenderLimits = RenderLimits()) {
        self.init(limits, RenderDeadline(.now + limits.time))
    }

    package init(_ limits: RenderLimits, _ deadline: RenderDeadline) {
        self.limits = limits
        self.deadline = deadline
    }

    /// Checks the size of a result, in pixels.
    ///
    /// - Parameter what: Name of the operation, for messages.
    /// - Throws: `.outputTooLarge`.
    package func checkOutput(_ width: Double, _ height: Double, _ what: String) throws(ImageError) {
        if max(width, height) <= Double(limits.outputSide) && width * height <= Double(limits.outputPixels) { return }
        throw ImageError(
            .outputTooLarge,
            "\(what) would give \(width)x\(height) pixels; the limits are \(limits.outputSide) a side and "
                + "\(limits.outputPixels) in all.",
            stage: .process
        )
    }

    /// - Throws: `.renderTimedOut`, `.cancelled`.
    package func checkTime() throws(ImageError) {
        guard deadline.isExpired, var error = deadline.error else { return }
        error.stage = .process
        throw error
    }
}
