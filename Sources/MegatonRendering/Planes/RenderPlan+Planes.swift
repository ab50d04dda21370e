extension RenderPlan.Step {
    /// Why the planes engine cannot make this rendition; nil if it can, given a source with planes.
    func reasonPlanesUnsupported(_ probe: ImageProbe) -> String? {
        switch rendition.format {
        case .jpeg: break
        case .webp: if rendition.lossless { return "WebP without loss is made of pixels" }
        case .png, .avif, .gif, .jxl: return "\(rendition.format.rawValue) is made of pixels"
        }
        if rendition.keepMetadata != .none { return "metadata are kept" }
        if rendition.profile == .keep && probe.hasRGBProfile { return "the profile is kept" }
        if canvas != nil { return "there is a canvas around it" }
        switch crop?.place {
        case .attention, .entropy: return "what stays is found by looking at pixels"
        case .at, nil: return nil
        }
    }

    /// Sampling of the result: chroma at half size except for high-quality JPEGs, as in libvips.
    func planeSampling(_ source: ChromaSampling) -> ChromaSampling {
        if source == .gray { return .gray }
        return rendition.format == .jpeg && rendition.quality >= 90 ? .s444 : .s420
    }
}
