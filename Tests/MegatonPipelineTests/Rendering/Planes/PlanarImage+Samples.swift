import MegatonCore
import Testing

@testable import MegatonRendering

extension PlanarImage {
    /// Planes of the sizes that the sampling gives them.
    ///
    /// - Parameter sample: makes a sample from the number of its plane and its place, in samples of luma.
    init(
        _ size: PixelSize,
        _ sampling: ChromaSampling,
        sample: (_ plane: Int, _ x: Int, _ y: Int) -> Int
    ) throws {
        let planes = try (0..<sampling.planes).map { index in
            let across = index == 0 ? 1 : sampling.horizontal
            let down = index == 0 ? 1 : sampling.vertical
            let plane = try #require(
                Plane(width: (size.width + across - 1) / across, height: (size.height + down - 1) / down)
            )
            for row in 0..<plane.height {
                for column in 0..<plane.width {
                    let value = sample(index, column * across, row * down)
                    plane.bytes[row * plane.stride + column] = UInt8(clamping: value)
                }
            }
            return plane
        }
        let (width, height) = (Double(size.width), Double(size.height))
        self.init(width: width, height: height, sampling: sampling, planes: planes)
    }
}
