/// The engine that makes renditions.
public enum RenderEngineChoice: String, Sendable, CaseIterable {
    /// The planes engine if it can make the rendition, otherwise libvips.
    case auto
    /// libvips for everything.
    case vips
    /// The planes engine alone: it works on a JPEG's planes without converting them to pixels (TurboJPEG, zimg,
    /// libwebp), and refuses everything else. For comparisons.
    case planes
}
