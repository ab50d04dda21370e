/// Facts that are computed from pixels.
package struct PixelFacts: Sendable, Equatable {
    let thumbHash: [UInt8]
    let dominantColor: Color?
    let perceptualHash: UInt64

    init(_ image: SmallImage) {
        thumbHash = ThumbHash.encode(image)
        dominantColor = DominantColor.color(of: image)
        perceptualHash = PerceptualHash.hash(image)
    }
}
