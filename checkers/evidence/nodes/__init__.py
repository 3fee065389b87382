"""What single nodes were seen to do: who acts for a master, and who has ended by itself."""
