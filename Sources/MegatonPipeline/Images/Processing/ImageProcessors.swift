/// The built-in processors. In addition to their documented errors, all throw `.renderTimedOut` and `.cancelled` when
/// their context's deadline passes or the request is cancelled.
public enum ImageProcessors {
    /// How an image is scaled to a size.
    public typealias ContentMode = MegatonRendering.ContentMode
}
